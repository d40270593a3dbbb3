//! Against values that another program decoded and computed: exllamav3 1.6.5 on an H200.

mod collection;
mod layer;
mod naive;
mod repository;
mod wrong_choices;
mod wrong_embeddings;

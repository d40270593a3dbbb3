# The commands of .ci/run by hand, one at a time. `just --list` shows them.

# Everything that has to pass before a commit lands.
ci:
    bash .ci/run

# Format the whole tree.
format:
    cargo fmt --all

# What the compiler and clippy have to say.
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# All tests, as the README runs them.
test:
    cargo test --release

# Stories from the model that ships.
run prompt="Once upon a time":
    cargo run --release -- run models/tiny-glm -p "{{prompt}}"

# The documentation, private items included.
docs:
    cargo doc --workspace --no-deps --document-private-items

# What is typed often. `just --list` shows it.

# Everything that has to pass before a commit lands.
ci:
    bash .ci/run

# Format the whole tree.
format:
    cargo fmt --all

# Stories from the model that ships.
run prompt="Once upon a time":
    cargo run --release -- run models/tiny-glm -p "{{prompt}}"

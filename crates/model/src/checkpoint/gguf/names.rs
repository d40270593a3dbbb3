//! What the tensors of a llama are called in GGUF files, and in which order their rows lie there.

/// Where a weight is in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The tensor's whole name.
    pub(super) name: String,
    pub(super) rows: Rows,
}

/// The order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// The model's own.
    Plain,
    /// Of queries: the two numbers that rotate together, `i` and `i + d/2` of a head, lie side by side.
    Queries,
    /// The same of keys.
    Keys,
}

/// The parts of a layer.
const PARTS: [(&str, &str, Rows); 9] = [
    ("input_layernorm.weight", "attn_norm", Rows::Plain),
    ("post_attention_layernorm.weight", "ffn_norm", Rows::Plain),
    ("self_attn.q_proj", "attn_q", Rows::Queries),
    ("self_attn.k_proj", "attn_k", Rows::Keys),
    ("self_attn.v_proj", "attn_v", Rows::Plain),
    ("self_attn.o_proj", "attn_output", Rows::Plain),
    ("mlp.gate_proj", "ffn_gate", Rows::Plain),
    ("mlp.up_proj", "ffn_up", Rows::Plain),
    ("mlp.down_proj", "ffn_down", Rows::Plain),
];

/// The place of a weight by the name that architectures give it; none if files have no name for it.
pub(super) fn place(weight: &str) -> Option<Place> {
    let plain = |name: &str| Some(Place { name: format!("{name}.weight"), rows: Rows::Plain });
    match weight {
        "model.embed_tokens" => return plain("token_embd"),
        "model.norm.weight" => return plain("output_norm"),
        "lm_head" => return plain("output"),
        _ => {}
    }
    let (layer, part) = weight.strip_prefix("model.layers.")?.split_once('.')?;
    let (_, name, rows) = PARTS.into_iter().find(|(known, _, _)| *known == part)?;
    Some(Place { name: format!("blk.{layer}.{name}.weight"), rows })
}

/// The row of the file that holds row `row` of the model, of heads of `dims` rows each that rotate by pairs.
pub(super) fn paired(row: usize, dims: usize) -> usize {
    let (head, row) = (row / dims, row % dims);
    let half = dims / 2;
    head * dims + row % half * 2 + row / half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_have_their_gguf_names() {
        let name = |weight| place(weight).map(|place| place.name);
        assert_eq!(name("model.layers.12.self_attn.k_proj").as_deref(), Some("blk.12.attn_k.weight"));
        assert_eq!(name("model.layers.0.input_layernorm.weight").as_deref(), Some("blk.0.attn_norm.weight"));
        assert_eq!(name("lm_head").as_deref(), Some("output.weight"));
        assert_eq!(name("model.layers.0.self_attn.q_norm.weight"), None);
    }

    #[test]
    fn rows_that_rotate_together_lie_side_by_side_in_the_file() {
        let order: Vec<usize> = (0..12).map(|row| paired(row, 6)).collect();
        assert_eq!(order, [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]);
    }
}

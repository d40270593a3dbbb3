//! The builder: a model writes its program with it, one call an operation.
//!
//! Shapes are checked where they are recorded, weights are looked up in a [`Catalogue`] at once, and every
//! error names the weight, what was found and what is needed.

use std::collections::HashMap;

use crate::weight::PartSpec;
use crate::{
    Activation, CacheId, CacheSpec, Cols, Dtype, Error, Glu, Gqa, Heads, Kind, Mla, ModelSpec, Op, Program,
    Result, Role, Rope, Routing, Rows, Storage, Val, WeightId, WeightSpec,
};

/// What weights there are and how each is stored: a checkpoint's headers, or a description of a model that
/// has no file.
pub trait Catalogue {
    /// How the weight called `name` is stored.
    ///
    /// # Errors
    /// [`Error::Weight`] if it is absent, has another shape than `kind` says, or is stored in a way that
    /// `kind` does not allow.
    fn storage(&self, name: &str, kind: Kind) -> Result<Storage>;

    /// Whether there is a weight called `name` in any storage.
    fn has(&self, name: &str) -> bool;
}

/// A linear map to record: its module's name, how many features come out, and whether it has a bias.
#[derive(Clone, Debug)]
pub struct LinearSpec {
    /// The module.
    pub name: String,
    /// Output features.
    pub out: u32,
    /// Whether a bias belongs to it.
    pub bias: bool,
}

/// The module names of one gated feed-forward unit.
#[derive(Clone, Debug)]
pub struct GluNames {
    /// `[width, hidden]`.
    pub gate: String,
    /// `[width, hidden]`.
    pub up: String,
    /// `[hidden, width]`.
    pub down: String,
}

/// The routed and the shared experts of one layer.
#[derive(Clone, Debug)]
pub struct ExpertsSpec {
    /// One entry an expert.
    pub experts: Vec<GluNames>,
    /// Columns between up and down of a routed expert.
    pub width: u32,
    /// The expert of all rows, with its width.
    pub shared: Option<(GluNames, u32)>,
    /// The non-linearity of all of them.
    pub act: Activation,
}

/// Records the programs of one model.
pub struct Builder<'a> {
    catalogue: &'a dyn Catalogue,
    model: ModelSpec,
    by_name: HashMap<String, WeightId>,
    ops: Vec<Op>,
    values: u32,
}

impl<'a> Builder<'a> {
    /// A builder that looks weights up in `catalogue`.
    pub fn new(catalogue: &'a dyn Catalogue) -> Builder<'a> {
        let model = ModelSpec { weights: Vec::new(), caches: Vec::new(), programs: Vec::new() };
        Builder { catalogue, model, by_name: HashMap::new(), ops: Vec::new(), values: 0 }
    }

    /// Ends the program recorded so far; `results` can be read after a step.
    pub fn program(&mut self, results: &[Val]) {
        let ops = std::mem::take(&mut self.ops);
        self.model.programs.push(Program { ops, inputs: Vec::new(), results: results.to_vec() });
    }

    /// The model, once all its programs are recorded.
    pub fn finish(self) -> ModelSpec {
        self.model
    }

    /// Whether the catalogue has a weight of this name.
    pub fn has(&self, name: &str) -> bool {
        self.catalogue.has(name)
    }

    /// A new cache.
    pub fn cache(&mut self, spec: CacheSpec) -> CacheId {
        self.model.caches.push(spec);
        CacheId(self.model.caches.len() as u32 - 1)
    }

    /// [`Op::Embed`].
    ///
    /// # Errors
    /// If the table is missing or has another shape.
    pub fn embed(&mut self, name: &str, vocab: u32, hidden: u32) -> Result<Val> {
        let table = self.weight(name, Kind::Table { vocab, hidden })?;
        let out = self.val(Rows::Tokens, hidden, Role::Stream);
        self.ops.push(Op::Embed { table, out });
        Ok(out)
    }

    /// [`Op::RmsNorm`] over runs of `len` columns: the whole row, or one head.
    ///
    /// # Errors
    /// If the weight is missing or has another length, or `len` does not divide the columns.
    pub fn rms_norm(&mut self, x: impl Into<Cols>, name: &str, len: u32, eps: f32) -> Result<Val> {
        let x = x.into();
        require(x.len.is_multiple_of(len), name, || format!("{} columns are no multiple of {len}", x.len))?;
        let weight = self.weight(name, Kind::Vector { len })?;
        let out = self.val(x.val.rows, x.len, Role::Activation);
        self.ops.push(Op::RmsNorm { x, weight, eps, out });
        Ok(out)
    }

    /// [`Op::AddRmsNorm`]: the new residual stream and its norm.
    ///
    /// # Errors
    /// If the weight is missing, or a length differs.
    pub fn add_rms_norm(&mut self, x: Val, delta: Val, name: &str, eps: f32) -> Result<(Val, Val)> {
        same_shape(x, delta, name)?;
        let weight = self.weight(name, Kind::Vector { len: x.cols })?;
        let sum = self.val(x.rows, x.cols, Role::Stream);
        let out = self.val(x.rows, x.cols, Role::Activation);
        self.ops.push(Op::AddRmsNorm { x, delta, weight, eps, sum, out });
        Ok((sum, out))
    }

    /// [`Op::Linear`] with one weight.
    ///
    /// # Errors
    /// If the weight is missing or has another shape.
    pub fn linear(&mut self, x: impl Into<Cols>, name: &str, out: u32) -> Result<Val> {
        let [out] = self.linears(x, [LinearSpec { name: name.into(), out, bias: false }])?;
        Ok(out)
    }

    /// [`Op::Linear`] with several weights that share an input.
    ///
    /// # Errors
    /// If a weight is missing or has another shape.
    pub fn linears<const N: usize>(
        &mut self,
        x: impl Into<Cols>,
        specs: [LinearSpec; N],
    ) -> Result<[Val; N]> {
        let x = x.into();
        let mut to = Vec::with_capacity(N);
        for LinearSpec { name, out, bias } in specs {
            let weight = self.weight(&name, Kind::Linear { out, inputs: x.len, bias })?;
            to.push((weight, self.val(x.val.rows, out, Role::Activation)));
        }
        let outs = std::array::from_fn(|index| to[index].1);
        self.ops.push(Op::Linear { x, to });
        Ok(outs)
    }

    /// The vocabulary's logits: [`Op::Linear`] with the head `name`, or with the embedding table `name` of
    /// a model that ties the two.
    ///
    /// # Errors
    /// If the weight is missing or has another shape, or is an embedding table stored as codes.
    pub fn head(&mut self, x: Val, name: &str, vocab: u32) -> Result<Val> {
        let weight = match self.by_name.get(name) {
            Some(&table) => {
                let spec = self.model.weight(table);
                require(spec.kind == Kind::Table { vocab, hidden: x.cols }, name, || {
                    format!("has the shape {:?}, the head needs [{vocab}, {}]", spec.kind.shape(), x.cols)
                })?;
                require(matches!(spec.parts[0].storage, Storage::Dense(_)), name, || {
                    "is a quantised embedding table, which cannot serve as the head of tied embeddings; \
                     the checkpoint needs an lm_head of its own"
                        .into()
                })?;
                table
            }
            None => self.weight(name, Kind::Linear { out: vocab, inputs: x.cols, bias: false })?,
        };
        let out = self.val(x.rows, vocab, Role::Logits);
        self.ops.push(Op::Linear { x: x.into(), to: vec![(weight, out)] });
        Ok(out)
    }

    /// A router's logits: [`Op::Linear`] whose result is kept exact.
    ///
    /// # Errors
    /// If the weight is missing or has another shape.
    pub fn router(&mut self, x: Val, name: &str, experts: u32) -> Result<Val> {
        let weight = self.weight(name, Kind::Linear { out: experts, inputs: x.cols, bias: false })?;
        let out = self.val(x.rows, experts, Role::Logits);
        self.ops.push(Op::Linear { x: x.into(), to: vec![(weight, out)] });
        Ok(out)
    }

    /// [`Op::Rope`].
    ///
    /// # Errors
    /// If heads, rotary dims and columns do not fit together.
    pub fn rope(&mut self, x: impl Into<Cols>, heads: Heads, rope: &Rope) -> Result<Val> {
        let x = x.into();
        let fits = x.len == heads.count * heads.dims
            && heads.first + heads.rotary <= heads.dims
            && heads.rotary as usize == 2 * rope.inverse_frequencies.len();
        require(fits, "rope", || {
            format!("{} columns as {heads:?} with {} frequencies", x.len, rope.inverse_frequencies.len())
        })?;
        let out = self.val(x.val.rows, x.len, Role::Activation);
        self.ops.push(Op::Rope { x, heads, rope: rope.clone(), out });
        Ok(out)
    }

    /// [`Op::CacheWrite`].
    ///
    /// # Errors
    /// If the part has another width.
    pub fn cache_write(&mut self, x: impl Into<Cols>, cache: CacheId, part: u32) -> Result<()> {
        let x = x.into();
        self.require_part(cache, part, x.len)?;
        self.ops.push(Op::CacheWrite { x, cache, part });
        Ok(())
    }

    /// [`Op::Attend`].
    ///
    /// # Errors
    /// If the query or the cache has another width.
    pub fn attend(&mut self, q: Val, cache: CacheId, shape: Gqa) -> Result<Val> {
        require(q.cols == shape.heads * shape.key_dims, "attend", || {
            format!("the query has {} columns, {shape:?}", q.cols)
        })?;
        require(shape.kv_heads > 0 && shape.heads.is_multiple_of(shape.kv_heads), "attend", || {
            format!("{} query heads over {} key heads", shape.heads, shape.kv_heads)
        })?;
        self.require_part(cache, 0, shape.kv_heads * shape.key_dims)?;
        self.require_part(cache, 1, shape.kv_heads * shape.value_dims)?;
        let out = self.val(q.rows, shape.heads * shape.value_dims, Role::Activation);
        self.ops.push(Op::Attend { q, cache, shape, out });
        Ok(out)
    }

    /// [`Op::AttendMla`]; `up` names the up-projection of the latent.
    ///
    /// # Errors
    /// If the query, the cache or the up-projection has another shape.
    pub fn attend_mla(&mut self, q: Val, cache: CacheId, up: &str, shape: Mla) -> Result<Val> {
        require(q.cols == shape.heads * (shape.nope + shape.rotary), "attend_mla", || {
            format!("the query has {} columns, {shape:?}", q.cols)
        })?;
        self.require_part(cache, 0, shape.rank)?;
        self.require_part(cache, 1, shape.rotary)?;
        let kind = Kind::Plain { out: shape.heads * (shape.nope + shape.value), inputs: shape.rank };
        let up = self.weight(up, kind)?;
        let out = self.val(q.rows, shape.heads * shape.value, Role::Activation);
        self.ops.push(Op::AttendMla { q, cache, up, shape, out });
        Ok(out)
    }

    /// [`Op::Route`]: chosen experts and gates.
    ///
    /// # Errors
    /// If the bias is missing, or the numbers of experts and groups do not fit together.
    pub fn route(&mut self, logits: Val, bias: Option<&str>, how: Routing) -> Result<(Val, Val)> {
        require(logits.cols == how.experts && how.fits(), "route", || {
            let within = how.groups.map(|groups| format!(" within {groups}")).unwrap_or_default();
            format!("{} logits, {} of {} experts{within}", logits.cols, how.top_k, how.experts)
        })?;
        let bias = bias.map(|name| self.weight(name, Kind::Vector { len: how.experts })).transpose()?;
        let ids = self.val(logits.rows, how.top_k, Role::Index);
        let gates = self.val(logits.rows, how.top_k, Role::Logits);
        self.ops.push(Op::Route { logits, bias, how, ids, gates });
        Ok((ids, gates))
    }

    /// [`Op::Experts`]; `routed` are the chosen experts and their gates.
    ///
    /// # Errors
    /// If a weight is missing or has another shape.
    pub fn experts(&mut self, x: Val, routed: (Val, Val), spec: &ExpertsSpec) -> Result<Val> {
        let (ids, gates) = routed;
        let experts = self.glu(&spec.experts, x.cols, spec.width)?;
        let shared = match &spec.shared {
            Some((names, width)) => Some(self.glu(std::slice::from_ref(names), x.cols, *width)?),
            None => None,
        };
        let out = self.val(x.rows, x.cols, Role::Activation);
        self.ops.push(Op::Experts { x, ids, gates, experts, shared, act: spec.act, out });
        Ok(out)
    }

    /// [`Op::ActMul`].
    ///
    /// # Errors
    /// If the two differ in shape.
    pub fn act_mul(&mut self, gate: Val, up: Val, act: Activation) -> Result<Val> {
        same_shape(gate, up, "act_mul")?;
        let out = self.val(gate.rows, gate.cols, Role::Activation);
        self.ops.push(Op::ActMul { gate, up, act, out });
        Ok(out)
    }

    /// [`Op::Add`].
    ///
    /// # Errors
    /// If the two differ in shape.
    pub fn add(&mut self, a: Val, b: Val) -> Result<Val> {
        same_shape(a, b, "add")?;
        let out = self.val(a.rows, a.cols, a.role);
        self.ops.push(Op::Add { a, b, out });
        Ok(out)
    }

    /// [`Op::Outputs`].
    pub fn outputs(&mut self, x: Val) -> Val {
        let out = self.val(Rows::Outputs, x.cols, x.role);
        self.ops.push(Op::Outputs { x, out });
        out
    }

    /// [`Op::Answer`].
    ///
    /// # Errors
    /// If more ids are known than there are logits.
    pub fn answer(&mut self, logits: Val, known: u32) -> Result<()> {
        require((1..=logits.cols).contains(&known), "answer", || {
            format!("{known} known ids, {} logits", logits.cols)
        })?;
        self.ops.push(Op::Answer { logits, known });
        Ok(())
    }

    fn val(&mut self, rows: Rows, cols: u32, role: Role) -> Val {
        self.values += 1;
        Val { id: self.values - 1, rows, cols, role }
    }

    fn weight(&mut self, name: &str, kind: Kind) -> Result<WeightId> {
        self.weight_of_parts(std::slice::from_ref(&name.to_owned()), kind)
    }

    /// A weight with one part for each name; a name recorded before is the same weight.
    fn weight_of_parts(&mut self, names: &[String], kind: Kind) -> Result<WeightId> {
        if let Some(&id) = self.by_name.get(&names[0]) {
            let known = self.model.weight(id).kind;
            require(known == kind, &names[0], || format!("is used as {known:?} and as {kind:?}"))?;
            return Ok(id);
        }
        let mut parts = Vec::with_capacity(names.len());
        for name in names {
            let storage = self.catalogue.storage(name, kind)?;
            // A plain weight stored as codes is decoded on its way to the device.
            let storage = match (kind, storage) {
                (Kind::Plain { .. }, Storage::Exl3 { .. }) => Storage::Dense(Dtype::F32),
                (_, storage) => storage,
            };
            parts.push(PartSpec { name: name.clone(), storage });
        }
        let id = WeightId(self.model.weights.len() as u32);
        self.model.weights.push(WeightSpec { kind, parts });
        self.by_name.insert(names[0].clone(), id);
        Ok(id)
    }

    fn glu(&mut self, units: &[GluNames], hidden: u32, width: u32) -> Result<Glu> {
        let names =
            |pick: fn(&GluNames) -> &String| units.iter().map(|unit| pick(unit).clone()).collect::<Vec<_>>();
        let wide = Kind::Linear { out: width, inputs: hidden, bias: false };
        let narrow = Kind::Linear { out: hidden, inputs: width, bias: false };
        Ok(Glu {
            gate: self.weight_of_parts(&names(|unit| &unit.gate), wide)?,
            up: self.weight_of_parts(&names(|unit| &unit.up), wide)?,
            down: self.weight_of_parts(&names(|unit| &unit.down), narrow)?,
        })
    }

    fn require_part(&self, cache: CacheId, part: u32, cols: u32) -> Result<()> {
        let parts = &self.model.cache(cache).parts;
        let found = parts.get(part as usize).map(|part| part.cols);
        require(found == Some(cols), "cache", || {
            format!("part {part} of cache {} has {found:?} columns, {cols} are needed", cache.0)
        })
    }
}

fn require(holds: bool, op: &str, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Shape { op: op.into(), what: what() }) }
}

fn same_shape(a: Val, b: Val, op: &str) -> Result<()> {
    require((a.rows, a.cols) == (b.rows, b.cols), op, || {
        format!("[{:?}, {}] and [{:?}, {}] differ", a.rows, a.cols, b.rows, b.cols)
    })
}

//! A problem: what `problem.toml` declares, checked.
//!
//! `docs/reference/problem-format.md` is the contract; this module implements it and refuses everything else.

pub(crate) mod document;
pub(crate) mod names;
mod parse;
mod references;
mod sections;
mod tensor;

use crate::case::{Role, Stress};
use crate::diagnostic::Source;
use crate::expression::Expression;
use crate::value::Value;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use names::{refuse_member, refuse_problem, refuse_variable};
pub use parse::parse_problem;

/// Version of the problem format that this crate reads.
pub const FORMAT: i64 = 1;

/// A checked problem file. Only [`parse_problem`] makes one.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Problem {
    /// The text it was read from.
    pub source: Arc<Source>,
    /// Name; also the C entry point and the prefix of the header.
    pub name: String,
    /// One line about the operator.
    pub summary: String,
    /// Where the calls run.
    pub target: Target,
    /// Scenario files.
    pub scenarios: ScenarioSets,
    /// What a scenario line carries.
    pub fields: Vec<Field>,
    /// Named expressions in file order.
    pub lets: Vec<Let>,
    /// Tensors of the call struct, in order.
    pub tensors: Vec<Tensor>,
    /// Scalars of the call struct, in order.
    pub attributes: Vec<Attribute>,
    /// Useful work of a call.
    pub cost: Option<Cost>,
    /// The trusted implementation.
    pub reference: Reference,
    /// The kernel a campaign starts from.
    pub seed: SourceFile,
    /// How seed and candidate are built.
    pub build: Build,
    /// How each output is compared: the `[tolerance]` table with its overrides.
    pub tolerance: ToleranceTable,
    /// What a candidate may use.
    pub constraints: Constraints,
    /// How held-out scenarios are drawn, if they are.
    pub held_out: Option<HeldOut>,
}

impl Problem {
    /// The bytes that define the problem file: its text. Scenario files and sources are hashed beside it.
    #[must_use]
    pub fn hash_input(&self) -> &[u8] {
        self.source.text().as_bytes()
    }
    /// The field with this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }
    /// The tensor with this name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.iter().find(|t| t.name == name)
    }
}

/// The scenario files of a problem and the choices among them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ScenarioSets {
    /// Name of the set that is used unless another is asked for; one of `files`.
    pub default: String,
    /// Ids that a quick evaluation takes; at least one.
    pub quick: Vec<QuickId>,
    /// Name and file of each set.
    pub files: Vec<(String, ScenarioFile)>,
}

/// Where the scenarios of a set stand.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScenarioFile {
    /// Path relative to the problem's folder.
    pub path: String,
    /// The set is the file's scenarios with this tag; all of them if there is none.
    pub tag: Option<String>,
}

/// An id of `scenarios.quick` and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuickId {
    /// Scenario id.
    pub id: String,
    /// Range in the problem file.
    pub span: Range<usize>,
}

/// Type of a scenario field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldType {
    /// A 64-bit integer.
    Int,
    /// A finite double.
    Float,
    /// `true` or `false`.
    Bool,
    /// A string.
    String,
    /// A list of 64-bit integers.
    IntList,
}

impl FieldType {
    /// Every type.
    pub const ALL: [Self; 5] = [Self::Int, Self::Float, Self::Bool, Self::String, Self::IntList];
    /// The name in problem files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Float => "float",
            Self::Bool => "bool",
            Self::String => "string",
            Self::IntList => "int_list",
        }
    }
}

/// One declared field of a scenario line.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Field {
    /// Name.
    pub name: String,
    /// Type.
    pub kind: FieldType,
    /// Smallest value, of each element for a list.
    pub min: Option<f64>,
    /// Largest value, of each element for a list.
    pub max: Option<f64>,
    /// The allowed strings, if restricted.
    pub one_of: Option<Vec<String>>,
    /// Whether it may be absent without a default.
    pub optional: bool,
    /// Value when absent.
    pub default: Option<Value>,
}

impl Field {
    /// Why `value` is not allowed in this field, if it is not.
    #[must_use]
    pub fn refusal(&self, value: &Value) -> Option<String> {
        let matches = match (self.kind, value) {
            (FieldType::Int, Value::Int(_))
            | (FieldType::Bool, Value::Bool(_))
            | (FieldType::String, Value::String(_)) => true,
            (FieldType::Float, Value::Int(_)) => true,
            (FieldType::Float, Value::Float(x)) => x.is_finite(),
            (FieldType::IntList, Value::List(items)) => items.iter().all(|v| matches!(v, Value::Int(_))),
            _ => false,
        };
        if !matches {
            return Some(format!("`{}` wants {}, not {value}", self.name, self.kind.name()));
        }
        let out_of_range = |v: &Value| {
            let x = v.as_float()?;
            match (self.min, self.max) {
                (Some(min), _) if x < min => Some(format!("`{}` is {v}, below its minimum {min}", self.name)),
                (_, Some(max)) if x > max => Some(format!("`{}` is {v}, above its maximum {max}", self.name)),
                _ => None,
            }
        };
        match value {
            Value::List(items) => items.iter().find_map(out_of_range),
            Value::String(s) => {
                let allowed = self.one_of.as_ref()?;
                (!allowed.contains(s)).then(|| format!("`{}` cannot be {value}", self.name))
            }
            other => out_of_range(other),
        }
    }
}

/// A named expression.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Let {
    /// Name.
    pub name: String,
    /// Its value.
    pub value: Expression,
}

/// One number for each axis of a tensor.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Axes {
    /// Range in the problem file.
    pub span: Range<usize>,
    /// How the numbers are given.
    pub form: AxesForm,
}

/// How the numbers of [`Axes`] are given.
#[derive(Debug, Clone)]
pub enum AxesForm {
    /// An expression for each axis: the rank is fixed.
    Each(Vec<Expression>),
    /// One expression that yields a list: the rank may differ between scenarios.
    Whole(Expression),
}

impl Axes {
    /// The expressions.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        match &self.form {
            AxesForm::Each(all) => all.as_slice(),
            AxesForm::Whole(one) => std::slice::from_ref(one),
        }
        .iter()
    }
    /// The rank, if it is the same in every scenario.
    #[must_use]
    pub fn rank(&self) -> Option<usize> {
        match &self.form {
            AxesForm::Each(all) => Some(all.len()),
            AxesForm::Whole(_) => None,
        }
    }
}

impl fmt::Display for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.form {
            AxesForm::Each(all) => {
                let all: Vec<&str> = all.iter().map(Expression::text).collect();
                write!(f, "({})", all.join(", "))
            }
            AxesForm::Whole(one) => f.write_str(one.text()),
        }
    }
}

/// A tensor of the call struct.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Tensor {
    /// Name; a C identifier.
    pub name: String,
    /// Range of the whole declaration's name, for errors about the tensor as such.
    pub span: Range<usize>,
    /// Role.
    pub role: Role,
    /// Yields the name of a dtype.
    pub dtype: Expression,
    /// Extents.
    pub shape: Axes,
    /// Whether the tensor is present; present if absent.
    pub when: Option<Expression>,
    /// Strides in elements; row-major if absent or null.
    pub stride: Option<Axes>,
    /// First element within the storage; 0 if absent.
    pub offset: Option<Expression>,
    /// Name of the shared storage, or an empty string; its own storage if absent.
    pub storage: Option<Expression>,
    /// Bytes off the 256-byte alignment; 0 if absent.
    pub misalign: Option<Expression>,
    /// Content; `None` for outputs only.
    pub generator: Option<GeneratorRule>,
    /// Stress families; the generator's usual ones if absent.
    pub stress: Option<Vec<Stress>>,
    /// Largest magnitude for the `extremes` family.
    pub extreme: Option<Expression>,
    /// Storage that a call may not depend on.
    pub garbage: Option<GarbageRule>,
}

/// A generator whose parameters are still expressions; [`crate::case::Generator`] says what each kind means.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GeneratorRule {
    /// Range of the inline table.
    pub span: Range<usize>,
    /// Kind and parameters.
    pub kind: GeneratorKind,
}

/// Kinds of generator with their parameters.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields are those of `case::Generator`")]
pub enum GeneratorKind {
    /// `normal`.
    Normal { mean: Expression, std: Expression, outliers: Option<Expression> },
    /// `uniform`.
    Uniform { lo: Expression, hi: Expression },
    /// `integers`.
    Integers { lo: Expression, hi: Expression },
    /// `lengths`.
    Lengths { lo: Expression, hi: Expression, total: Option<Expression> },
    /// `values`.
    Values { values: Expression },
    /// `row_offsets`.
    RowOffsets { lengths: Expression },
    /// `page_table`.
    PageTable { pool: Expression, used: Expression },
    /// `permutation`.
    Permutation,
    /// `quantised`.
    Quantised { scales: String, scale_axes: Vec<usize>, std: Expression, fraction: Expression },
    /// `from_quantised`.
    FromQuantised,
    /// `constant`.
    Constant { value: Expression },
}

impl GeneratorKind {
    /// Whether the content is independent random reals, so that other distributions make sense.
    #[must_use]
    pub const fn is_random_float(&self) -> bool {
        matches!(self, Self::Normal { .. } | Self::Uniform { .. } | Self::Quantised { .. })
    }
}

/// Unused storage of a tensor.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GarbageRule {
    /// Range of the inline table.
    pub span: Range<usize>,
    /// The value written.
    pub value: Expression,
    /// Start of the used range per row.
    pub start: Expression,
    /// End of the used range per row.
    pub end: Expression,
    /// Name of the page table; not used in a scenario where that tensor is absent.
    pub table: Option<String>,
}

/// Type of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeType {
    /// `double`.
    F64,
    /// `int64_t`.
    I64,
}

/// A scalar of the call struct.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Attribute {
    /// Name; a C identifier.
    pub name: String,
    /// Type.
    pub kind: AttributeType,
    /// Value.
    pub value: Expression,
}

/// Useful work of one call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Cost {
    /// Floating-point operations.
    pub flops: Expression,
    /// Least bytes moved.
    pub bytes: Expression,
}

/// Where a problem's calls run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Threads of this machine; tensors lie in its memory.
    #[default]
    Cpu,
    /// One NVIDIA GPU; tensors lie in its memory and a call enqueues its work on the call struct's stream.
    Cuda,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Cpu, Self::Cuda];

    /// Its name in the problem file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}

/// Language of a source file, told by its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// `.c`.
    C,
    /// `.cc`, `.cpp`.
    Cxx,
    /// `.cu`.
    Cuda,
    /// `.py`.
    Python,
}

impl Language {
    /// The language of a path.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        match path.rsplit_once('.')?.1 {
            "c" => Some(Self::C),
            "cc" | "cpp" => Some(Self::Cxx),
            "cu" => Some(Self::Cuda),
            "py" => Some(Self::Python),
            _ => None,
        }
    }
}

/// A source file of the problem.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceFile {
    /// Path relative to the problem's folder.
    pub path: String,
    /// Language.
    pub language: Language,
}

/// Precision of the reference's arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// f32.
    F32,
    /// f64.
    F64,
}

/// The trusted implementation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Reference {
    /// Source file.
    pub source: SourceFile,
    /// Precision it computes in.
    pub precision: Precision,
    /// Whether it, and its model, can be asked for a part of an answer (`NAME_sampled`).
    pub sampled: bool,
    /// Second entry point that rounds named intermediates.
    pub model: Option<String>,
    /// Why the model may be looser than the seed.
    pub model_reason: Option<String>,
}

/// How seed and candidate are built.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Build {
    /// Compiler flags.
    pub flags: Vec<String>,
    /// Linker flags.
    pub link: Vec<String>,
    /// Flags that a candidate may add for itself, unless a campaign says otherwise.
    pub candidate_flags: Vec<String>,
}

/// Bounds of an output that are given; what is absent falls back to the table, then to the default.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ToleranceRule {
    /// Multiple of the yardstick.
    pub k: Option<Expression>,
    /// Multiple of the yardstick's RMS error.
    pub rms_k: Option<Expression>,
    /// Floor in units of epsilon.
    pub floor_ulps: Option<Expression>,
    /// Absolute floor.
    pub floor_abs: Option<Expression>,
    /// Cap on the relative RMS error.
    pub rel_rms_max: Option<Expression>,
    /// Absolute bound instead of the yardstick.
    pub atol: Option<Expression>,
    /// Whether non-finite values may match.
    pub nonfinite_matches: Option<bool>,
}

/// The `[tolerance]` table.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ToleranceTable {
    /// For every output.
    pub all: ToleranceRule,
    /// Overrides by output name.
    pub outputs: Vec<(String, ToleranceRule)>,
}

/// What a candidate may use.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Constraints {
    /// Cores a call may use.
    pub threads: u32,
    /// Memory beyond the tensors, in MiB.
    pub memory_mb: u64,
    /// Whether repeats must be bit-equal.
    pub deterministic: bool,
    /// Whether a workspace is given.
    pub workspace: bool,
    /// Additions to the import allow-list (globs).
    pub allow_imports: Vec<String>,
    /// Additions to the header deny-list (globs).
    pub deny_headers: Vec<String>,
}

impl Default for Constraints {
    fn default() -> Self {
        Self {
            threads: 1,
            memory_mb: 2048,
            deterministic: false,
            workspace: true,
            allow_imports: Vec::new(),
            deny_headers: Vec::new(),
        }
    }
}

/// How one field of a held-out scenario differs from its base.
#[derive(Debug, Clone, PartialEq)]
pub enum Vary {
    /// Each value times a random factor of the range, rounded, not below `min`.
    Scale {
        /// Smallest factor.
        lo: f64,
        /// Largest factor.
        hi: f64,
        /// Smallest result.
        min: Option<i64>,
        /// Results are odd: no tile divides them.
        odd: bool,
        /// Field whose factors are taken, element by element, where it has as many: what was equal stays equal.
        with: Option<String>,
    },
    /// Each value plus a random integer of the range, not below `min`.
    Add {
        /// Smallest addend.
        lo: i64,
        /// Largest addend.
        hi: i64,
        /// Smallest result.
        min: Option<i64>,
    },
    /// One of these values.
    Choose(Vec<Value>),
}

/// The rule of one field.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Varied {
    /// The field.
    pub field: String,
    /// What happens to its values.
    pub vary: Vary,
    /// Field that says how many elements a list has afterwards; those that it lacks are its first ones, varied anew.
    pub length: Option<String>,
}

/// How held-out scenarios are drawn.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HeldOut {
    /// Number of them as a share of the default set, at least 0.2.
    pub share: f64,
    /// Largest allowed gap between the visible and the held-out result.
    pub max_gap: f64,
    /// Rule per field, in file order.
    pub vary: Vec<Varied>,
    /// A drawn line for which this is false is drawn again.
    pub keep: Option<Expression>,
    /// Range of the table.
    pub span: Range<usize>,
}

//! ELF bytes → facts, from what the loader reads (program headers and the dynamic segment).
//!
//! Section headers are for linkers and people: a file can lie in them or drop them and still load. They are used
//! here only for names and sizes in reports.

mod code;
mod device_code;
mod dynamic;
mod image;
mod registration;
mod versions;
mod x86;

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader, SectionHeader};
use serde::{Deserialize, Serialize};

pub use code::RawSyscalls;
pub use device_code::DeviceCode;
use image::Image;
pub use registration::{Registration, Wrapper};

/// Header type of every file this crate reads: 64-bit, either byte order.
pub(crate) type Header = elf::FileHeader64<Endianness>;

/// Why bytes are not an ELF file whose facts can be told.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// Not ELF at all, or its header is cut off.
    #[error("not an ELF file")]
    NotElf(#[source] object::Error),
    /// 32-bit ELF.
    #[error("32-bit ELF is not supported")]
    Class32,
    /// A table that the loader needs points outside the file or contradicts itself.
    #[error("malformed ELF: {what}")]
    Malformed {
        /// The table.
        what: &'static str,
    },
}

/// Instruction set of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Machine {
    /// x86-64.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
    /// Anything else, as `e_machine` (190 is CUDA).
    Other(u16),
}

/// What kind of file it says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileType {
    /// Object file.
    Relocatable,
    /// Executable at a fixed address.
    Executable,
    /// Shared library (or position-independent executable).
    Shared,
    /// Anything else, as `e_type`.
    Other(u16),
}

/// What the file asks the stack to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stack {
    /// `PT_GNU_STACK` without execute permission.
    NonExecutable,
    /// `PT_GNU_STACK` with execute permission.
    Executable,
    /// No `PT_GNU_STACK`: the loader takes the architecture's default, executable on x86-64.
    Unstated,
}

/// A symbol the file needs from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Import {
    /// Name as in the file (mangled).
    pub name: String,
    /// Version it asks for (`GLIBC_2.17`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Library that version belongs to (`libc.so.6`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// Weak: loading succeeds without it.
    pub weak: bool,
}

/// What an exported symbol is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExportKind {
    /// Function.
    Function,
    /// Function chosen by a resolver that runs at load time (`STT_GNU_IFUNC`).
    IndirectFunction,
    /// Data, thread-local or not.
    Object,
    /// Anything else.
    Other,
}

/// A symbol the file offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// Name as in the file (mangled).
    pub name: String,
    /// What it is.
    pub kind: ExportKind,
    /// Size in bytes as the symbol table says.
    pub size: u64,
    /// Weak definition.
    pub weak: bool,
}

/// One section, for reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Name.
    pub name: String,
    /// Bytes in memory.
    pub size: u64,
    /// Holds instructions.
    pub executable: bool,
}

/// A loadable segment whose memory is both writable and executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WritableCode {
    /// Address in the file's own address space.
    pub address: u64,
    /// Bytes in memory.
    pub size: u64,
}

/// Everything this crate can say of one ELF file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElfFacts {
    /// Instruction set.
    pub machine: Machine,
    /// Kind of file.
    pub file_type: FileType,
    /// Name the library gives itself.
    pub soname: Option<String>,
    /// Libraries it loads, in file order.
    pub needed: Vec<String>,
    /// Libraries it loads by the back door: `DT_AUXILIARY`, `DT_FILTER`, `DT_AUDIT`, `DT_DEPAUDIT`.
    pub filters: Vec<String>,
    /// `DT_RPATH`.
    pub rpath: Option<String>,
    /// `DT_RUNPATH`.
    pub runpath: Option<String>,
    /// Undefined dynamic symbols, in table order.
    pub imports: Vec<Import>,
    /// Defined, visible, non-local dynamic symbols, in table order.
    pub exports: Vec<Export>,
    /// Entries of the initialiser array; gcc and clang put one of their own there.
    pub init_array: u64,
    /// Entries of the finaliser array; gcc and clang put one of their own there.
    pub fini_array: u64,
    /// Whether a resolver runs while the file is loaded (an exported one, or an `IRELATIVE` relocation).
    pub ifunc: bool,
    /// Stack permissions.
    pub stack: Stack,
    /// Relocations patch code pages.
    pub text_relocations: bool,
    /// Segments that are writable and executable at once.
    pub writable_code: Vec<WritableCode>,
    /// Instructions that enter the kernel without libc: a heuristic.
    pub raw_syscalls: RawSyscalls,
    /// Embedded GPU code.
    pub device_code: DeviceCode,
    /// Who hands GPU code to the CUDA runtime.
    pub registration: Registration,
    /// Build id, hexadecimal.
    pub build_id: Option<String>,
    /// Sections, in file order; empty if the section table is missing or broken.
    pub sections: Vec<Section>,
}

impl ElfFacts {
    /// Whether a function of this exact name is exported.
    #[must_use]
    pub fn exports_function(&self, name: &str) -> bool {
        self.exports
            .iter()
            .any(|e| e.name == name && matches!(e.kind, ExportKind::Function | ExportKind::IndirectFunction))
    }
}

/// Reads the facts of one ELF file.
///
/// Time and memory are linear in `bytes`.
///
/// # Errors
/// [`InspectError`] if the bytes are not 64-bit ELF, or if a table that the loader would follow is broken.
pub fn facts(bytes: &[u8]) -> Result<ElfFacts, InspectError> {
    if bytes.get(..5) == Some(&[0x7f, b'E', b'L', b'F', 1]) {
        return Err(InspectError::Class32);
    }
    let header = Header::parse(bytes).map_err(InspectError::NotElf)?;
    let endian = header.endian().map_err(InspectError::NotElf)?;
    let segments = header
        .program_headers(endian, bytes)
        .map_err(|_| InspectError::Malformed { what: "program header table" })?;
    let image = Image { bytes, endian, segments };

    let machine = match header.e_machine(endian) {
        elf::EM_X86_64 => Machine::X86_64,
        elf::EM_AARCH64 => Machine::Aarch64,
        other => Machine::Other(other.0),
    };
    let file_type = match header.e_type(endian) {
        elf::ET_REL => FileType::Relocatable,
        elf::ET_EXEC => FileType::Executable,
        elf::ET_DYN => FileType::Shared,
        other => FileType::Other(other.0),
    };
    let dynamic = dynamic::read(&image, machine)?;
    let sections = sections(header, endian, bytes);
    Ok(ElfFacts {
        machine,
        file_type,
        soname: dynamic.soname,
        needed: dynamic.needed,
        filters: dynamic.filters,
        rpath: dynamic.rpath,
        runpath: dynamic.runpath,
        ifunc: dynamic.irelative || dynamic.exports.iter().any(|e| e.kind == ExportKind::IndirectFunction),
        imports: dynamic.imports,
        exports: dynamic.exports,
        init_array: dynamic.init_array,
        fini_array: dynamic.fini_array,
        stack: stack(&image),
        text_relocations: dynamic.text_relocations,
        writable_code: writable_code(&image),
        raw_syscalls: code::raw_syscalls(&image, machine),
        device_code: device_code::find(bytes, endian, machine, &sections),
        registration: dynamic.registration,
        build_id: build_id(&image),
        sections,
    })
}

fn stack(image: &Image<'_>) -> Stack {
    let Some(header) = image.segments.iter().rfind(|s| s.p_type(image.endian) == elf::PT_GNU_STACK) else {
        return Stack::Unstated;
    };
    if header.p_flags(image.endian).contains(elf::PF_X) { Stack::Executable } else { Stack::NonExecutable }
}

fn writable_code(image: &Image<'_>) -> Vec<WritableCode> {
    let flags = elf::PF_W | elf::PF_X;
    image
        .loads()
        .filter(|s| s.p_flags(image.endian).contains(flags))
        .map(|s| WritableCode { address: s.p_vaddr(image.endian), size: s.p_memsz(image.endian) })
        .collect()
}

fn build_id(image: &Image<'_>) -> Option<String> {
    let note_segments = image.segments.iter().filter(|s| s.p_type(image.endian) == elf::PT_NOTE);
    for segment in note_segments {
        let Ok(data) = segment.data(image.endian, image.bytes) else { continue };
        let Ok(mut notes) = NoteIterator::<Header>::new(image.endian, segment.p_align(image.endian), data)
        else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(image.endian) == elf::NT_GNU_BUILD_ID {
                // 20 bytes by default, 64 at most in any tool's setting.
                return Some(note.desc().iter().take(64).map(|b| format!("{b:02x}")).collect());
            }
        }
    }
    None
}

fn sections(header: &Header, endian: Endianness, bytes: &[u8]) -> Vec<Section> {
    let Ok(table) = header.sections(endian, bytes) else { return Vec::new() };
    table
        .iter()
        .filter(|s| s.sh_type(endian) != elf::SHT_NULL)
        .map(|s| Section {
            name: table.section_name(endian, s).map(text).unwrap_or_default(),
            size: s.sh_size(endian),
            executable: s.sh_flags(endian).contains(elf::SHF_EXECINSTR),
        })
        .collect()
}

/// Where a section lies in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SectionPlace {
    pub(crate) name: String,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// The sections that have bytes in the file; none if there is no readable table.
pub(crate) fn section_places(bytes: &[u8]) -> Vec<SectionPlace> {
    let Ok(header) = Header::parse(bytes) else { return Vec::new() };
    let Ok(endian) = header.endian() else { return Vec::new() };
    let Ok(table) = header.sections(endian, bytes) else { return Vec::new() };
    table
        .iter()
        .filter_map(|s| {
            let (offset, size) = s.file_range(endian)?;
            Some(SectionPlace {
                name: table.section_name(endian, s).map(text).unwrap_or_default(),
                offset,
                size,
            })
        })
        .collect()
}

/// Bytes of a name as text, cut to a sane length: names reach reports and terminals.
pub(crate) fn text(bytes: &[u8]) -> String {
    // Longest symbol that any toolchain here emits is far below this.
    let bytes = &bytes[..bytes.len().min(1 << 16)];
    String::from_utf8_lossy(bytes).into_owned()
}

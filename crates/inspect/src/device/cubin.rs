//! A cubin: an ELF file of GPU code for one architecture, with what each of its kernels takes.

use std::collections::HashMap;

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, SectionHeader, SectionTable, Sym};
use serde::{Deserialize, Serialize};

use super::DeviceObject;
use crate::elf::{Header, text};
use crate::symbol;

/// `e_machine` of CUDA's images.
pub(crate) const MACHINE: u16 = 190;
/// More functions than this in one cubin are no kernel's.
const FUNCTIONS: usize = 4096;
/// `st_other` of a kernel, as opposed to a device function.
const ENTRY: u8 = 0x10;
/// From this architecture on, the system keeps the first KiB of every block's shared memory.
const RESERVES_SHARED: u32 = 90;
/// Bytes that it keeps; a section for shared memory counts them.
const RESERVED: u64 = 1024;

/// Attributes of `.nv.info` sections.
mod attribute {
    pub(super) const MAX_THREADS: u8 = 0x05;
    pub(super) const REQUIRED_THREADS: u8 = 0x10;
    pub(super) const FRAME_SIZE: u8 = 0x11;
    pub(super) const MIN_STACK_SIZE: u8 = 0x12;
    pub(super) const PARAMETER_SIZE: u8 = 0x19;
    pub(super) const MAX_REGISTERS: u8 = 0x1b;
    pub(super) const REGISTERS: u8 = 0x2f;
    pub(super) const CLUSTER: u8 = 0x3d;
    pub(super) const BARRIERS: u8 = 0x4c;
}

/// Why bytes are no cubin whose facts can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CubinError {
    /// Not ELF, 32-bit, or for another machine.
    #[error("not a cubin")]
    NotCubin,
    /// A table points outside the file or contradicts itself.
    #[error("malformed cubin: {what}")]
    Malformed {
        /// The table.
        what: &'static str,
    },
}

const fn malformed(what: &'static str) -> CubinError {
    CubinError::Malformed { what }
}

/// One function: a kernel, or a device function that was not inlined.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Name as in the file (mangled).
    pub name: String,
    /// Name as in the source, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demangled: Option<String>,
    /// Whether the host can launch it.
    pub kernel: bool,
    /// Registers of a thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registers: Option<u32>,
    /// Static shared memory that it declares, as `ptxas -v` counts it; dynamic memory is the launch's.
    pub shared_bytes: u64,
    /// Shared memory that the system adds to it.
    pub shared_reserved_bytes: u64,
    /// Stack of a thread: local memory for arrays, calls and spilled registers.
    pub stack_bytes: u64,
    /// Local memory beside the stack.
    pub local_bytes: u64,
    /// Bytes of its constant bank 0: parameters and what the driver puts before them.
    pub constant_bytes: u64,
    /// Bytes of parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter_bytes: Option<u32>,
    /// Named barriers.
    pub barriers: u32,
    /// Threads of a block at most (`__launch_bounds__`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_threads: Option<[u32; 3]>,
    /// Threads of a block exactly (`.reqntid`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_threads: Option<[u32; 3]>,
    /// Registers that the compiler was held to (`-maxrregcount`), if less than it may always use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_registers: Option<u32>,
    /// Blocks of a cluster (`__cluster_dims__`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<[u32; 3]>,
    /// Bytes of instructions.
    pub code_bytes: u64,
    /// Hash of the instructions, hexadecimal.
    pub code: String,
}

impl Function {
    /// Name for people.
    #[must_use]
    pub fn readable(&self) -> &str {
        self.demangled.as_deref().unwrap_or(&self.name)
    }
}

/// One cubin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cubin {
    /// `sm_90a`.
    pub arch: String,
    /// Kernels and device functions, in file order.
    pub functions: Vec<Function>,
    /// Bytes of global variables.
    pub global_bytes: u64,
    /// Bytes of `__constant__` variables.
    pub constant_bytes: u64,
    /// Functions that it calls and does not hold (relocatable code).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undefined: Vec<String>,
}

impl Cubin {
    /// `function` as something to compare.
    #[must_use]
    pub fn object(&self, function: &Function) -> DeviceObject {
        DeviceObject { arch: self.arch.clone(), name: function.name.clone(), code: function.code.clone() }
    }
}

/// Whether `bytes` start like a cubin.
#[must_use]
pub fn is_cubin(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x7f, b'E', b'L', b'F', 2, 1])
        && bytes.get(18..20) == Some(&MACHINE.to_le_bytes()[..])
}

/// Reads a cubin. `arch` is what the container says of it, with a suffix that the file itself need not have.
///
/// # Errors
/// [`CubinError`] if it is none or its tables are broken.
pub fn read(bytes: &[u8], arch: Option<&str>) -> Result<Cubin, CubinError> {
    if !is_cubin(bytes) {
        return Err(CubinError::NotCubin);
    }
    let header = Header::parse(bytes).map_err(|_| CubinError::NotCubin)?;
    let endian = header.endian().map_err(|_| CubinError::NotCubin)?;
    let sections = header.sections(endian, bytes).map_err(|_| malformed("section table"))?;
    let number = arch_number(header.e_ident().os_abi.0, header.e_flags(endian).0);
    let mut reader = Reader {
        bytes,
        endian,
        sections,
        number,
        // Sections may overlap in a file that nobody's compiler made; reading stays linear in the file all the same.
        budget: bytes.len().saturating_mul(4),
    };
    let accelerated = reader.accelerated()?;
    let own = format!("sm_{number}");
    let arch = match arch {
        // The architecture is part of the identity: a container that calls its content something else is no compiler's.
        Some(arch) if arch.trim_end_matches(['a', 'f']) != own => {
            return Err(malformed("it is for another architecture than its container says"));
        }
        Some(arch) => arch.to_owned(),
        None => format!("{own}{}", if accelerated { "a" } else { "" }),
    };
    let mut out = Cubin { arch, ..Cubin::default() };
    reader.functions(&mut out)?;
    Ok(out)
}

/// The number in `sm_90`. The place moved when architectures outgrew one byte.
fn arch_number(os_abi: u8, flags: u32) -> u32 {
    if os_abi == 0x41 { flags >> 8 & 0xfff } else { flags & 0xff }
}

struct Reader<'d> {
    bytes: &'d [u8],
    endian: Endianness,
    sections: SectionTable<'d, Header>,
    number: u32,
    budget: usize,
}

impl<'d> Reader<'d> {
    fn data(&mut self, section: &elf::SectionHeader64<Endianness>) -> Result<&'d [u8], CubinError> {
        let data =
            section.data(self.endian, self.bytes).map_err(|_| malformed("a section outside the file"))?;
        self.budget = self.budget.checked_sub(data.len()).ok_or(malformed("sections that overlap"))?;
        Ok(data)
    }

    fn name(&self, section: &elf::SectionHeader64<Endianness>) -> String {
        self.sections.section_name(self.endian, section).map(text).unwrap_or_default()
    }

    /// Whether the compatibility section says that the code needs exactly this architecture.
    fn accelerated(&mut self) -> Result<bool, CubinError> {
        let Some((_, section)) = self.sections.section_by_name(self.endian, b".nv.compat") else {
            return Ok(false);
        };
        let data = self.data(section)?;
        Ok(attributes(data).any(|a| a.number == 0x09 && a.value == 1))
    }

    fn functions(&mut self, out: &mut Cubin) -> Result<(), CubinError> {
        let symbols = self
            .sections
            .symbols(self.endian, self.bytes, elf::SHT_SYMTAB)
            .map_err(|_| malformed("symbol table"))?;
        // The function that starts each section, by the section's number, and the other way round.
        let mut of_section: HashMap<usize, (u32, u8)> = HashMap::new();
        let mut by_symbol: HashMap<u32, usize> = HashMap::new();
        for (index, symbol) in symbols.iter().enumerate() {
            if symbol.st_type() != elf::STT_FUNC {
                continue;
            }
            let number = u32::try_from(index).unwrap_or(u32::MAX);
            if symbol.is_undefined(self.endian) {
                if out.undefined.len() < FUNCTIONS {
                    let name = symbols.symbol_name(self.endian, symbol).map(text).unwrap_or_default();
                    out.undefined.push(name);
                }
                continue;
            }
            let section = usize::from(symbol.st_shndx(self.endian).0);
            let kernel = symbol.st_other().0 & ENTRY;
            let known = of_section.entry(section).or_insert((number, kernel));
            known.1 |= kernel;
        }
        let mut by_name: HashMap<String, usize> = HashMap::new();
        let sections: Vec<_> = self.sections.iter().collect();
        for (index, section) in sections.iter().enumerate() {
            let name = self.name(section);
            let Some(function) = name.strip_prefix(".text.") else { continue };
            if out.functions.len() == FUNCTIONS {
                return Err(malformed("more functions than any compiler makes"));
            }
            let code = self.data(section)?;
            let (symbol, kernel) = of_section.get(&index).copied().unwrap_or((u32::MAX, ENTRY));
            by_symbol.insert(symbol, out.functions.len());
            by_name.insert(function.to_owned(), out.functions.len());
            let flags = section.sh_flags(self.endian).0;
            out.functions.push(Function {
                demangled: symbol::demangle(function),
                name: symbol::shorten(function),
                kernel: kernel & ENTRY != 0,
                // Where older compilers put it; the attribute wins.
                barriers: (flags >> 20 & 0x7f) as u32,
                code_bytes: code.len() as u64,
                code: blake3::hash(code).to_hex().to_string(),
                ..Function::default()
            });
        }
        for section in sections {
            self.section(section, out, &by_symbol, &by_name)?;
        }
        Ok(())
    }

    /// What a section says of the functions that are known by now.
    fn section(
        &mut self,
        section: &elf::SectionHeader64<Endianness>,
        out: &mut Cubin,
        by_symbol: &HashMap<u32, usize>,
        by_name: &HashMap<String, usize>,
    ) -> Result<(), CubinError> {
        let name = self.name(section);
        let size = section.sh_size(self.endian);
        let of = |rest: &str| by_name.get(rest).copied();
        if name == ".nv.info" {
            for attribute in attributes(self.data(section)?) {
                let [symbol, value, _] = attribute.words();
                let Some(function) = by_symbol.get(&symbol).and_then(|i| out.functions.get_mut(*i)) else {
                    continue;
                };
                match attribute.number {
                    attribute::REGISTERS => function.registers = Some(value),
                    attribute::FRAME_SIZE | attribute::MIN_STACK_SIZE => {
                        function.stack_bytes = function.stack_bytes.max(u64::from(value));
                    }
                    _ => {}
                }
            }
        } else if let Some(index) = name.strip_prefix(".nv.info.").and_then(of) {
            let data = self.data(section)?;
            out.functions[index].learn(data);
        } else if let Some(index) = name.strip_prefix(".nv.shared.").and_then(of) {
            let reserved = if self.number >= RESERVES_SHARED { RESERVED.min(size) } else { 0 };
            out.functions[index].shared_reserved_bytes = reserved;
            out.functions[index].shared_bytes = size - reserved;
        } else if let Some(index) = name.strip_prefix(".nv.constant0.").and_then(of) {
            out.functions[index].constant_bytes = size;
        } else if let Some(index) = name.strip_prefix(".nv.local.").and_then(of) {
            out.functions[index].local_bytes = size;
        } else if name == ".nv.constant3" {
            out.constant_bytes = size;
        } else if name == ".nv.global" || name == ".nv.global.init" {
            out.global_bytes = out.global_bytes.saturating_add(size);
        }
        Ok(())
    }
}

impl Function {
    /// Takes what the function's own `.nv.info` section says.
    fn learn(&mut self, data: &[u8]) {
        for attribute in attributes(data) {
            let [x, y, z] = attribute.words();
            match attribute.number {
                attribute::MAX_THREADS if attribute.payload.len() >= 12 => self.max_threads = Some([x, y, z]),
                attribute::REQUIRED_THREADS if attribute.payload.len() >= 12 => {
                    self.required_threads = Some([x, y, z]);
                }
                attribute::CLUSTER if attribute.payload.len() >= 12 => self.cluster = Some([x, y, z]),
                attribute::PARAMETER_SIZE => self.parameter_bytes = Some(u32::from(attribute.value)),
                attribute::MAX_REGISTERS if attribute.value < 0xff => {
                    self.max_registers = Some(u32::from(attribute.value));
                }
                // One byte counts; older tools leave the other one as it was.
                attribute::BARRIERS => self.barriers = u32::from(attribute.value & 0xff),
                _ => {}
            }
        }
    }
}

/// One record of an information section.
struct Attribute<'d> {
    number: u8,
    /// Its value, if it has no payload.
    value: u16,
    payload: &'d [u8],
}

impl Attribute<'_> {
    /// The first words of the payload; zero where there are fewer.
    fn words(&self) -> [u32; 3] {
        [0, 4, 8].map(|at| super::fatbin::u32_at(self.payload, at).unwrap_or(0))
    }
}

/// The records of an information section, until it ends or breaks off.
fn attributes(data: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    let mut rest = data;
    std::iter::from_fn(move || {
        let (&[format, number, a, b], after) = rest.split_first_chunk()?;
        let value = u16::from_le_bytes([a, b]);
        // Format 4 has a payload of that many bytes; the others hold their value.
        let (payload, after) =
            if format == 4 { after.split_at_checked(value.into())? } else { (&[][..], after) };
        rest = after;
        Some(Attribute { number, value, payload })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures() {
        for (os_abi, flags, number) in [
            (0x41, 0x0600_5a04, 90),
            (0x41, 0x0600_6402, 100),
            (0x41, 0x0600_7802, 120),
            (0x41, 0x0600_5004, 80),
            (0x33, 0x005a_055a, 90),
            (0x33, 0x0050_0550, 80),
        ] {
            assert_eq!(arch_number(os_abi, flags), number, "{flags:#x}");
        }
    }

    #[test]
    fn attributes_are_walked() {
        let data = [4, 0x2f, 8, 0, 7, 0, 0, 0, 40, 0, 0, 0, 3, 0x1b, 0x80, 0, 2, 0x4c, 3, 1, 4, 5, 200, 0, 1];
        let found: Vec<_> = attributes(&data).map(|a| (a.number, a.value, a.words())).collect();
        assert_eq!(found, [(0x2f, 8, [7, 40, 0]), (0x1b, 0x80, [0; 3]), (0x4c, 0x103, [0; 3])]);
        let mut function = Function::default();
        function.learn(&data);
        assert_eq!((function.barriers, function.max_registers, function.max_threads), (3, Some(128), None));
    }

    #[test]
    fn other_bytes_are_refused() {
        assert_eq!(read(b"", None), Err(CubinError::NotCubin));
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        assert_eq!(read(&bytes, None), Err(CubinError::NotCubin));
        bytes[18] = 190;
        assert!(read(&bytes, None).is_ok_and(|c| c.functions.is_empty()));
    }
}

//! The dynamic segment: libraries, symbols with versions, load-time code.

use object::elf::{self, Rela64, Sym64};
use object::read::elf::{Dyn, GnuHashTable, HashTable, ProgramHeader, Sym};
use object::{Endianness, StringTable};

use super::image::Image;
use super::registration::{self, Registration};
use super::versions::Versions;
use super::{Export, ExportKind, Header, Import, InspectError, Machine, text};

/// What the dynamic segment says.
#[derive(Default)]
pub(super) struct Dynamic {
    pub(super) soname: Option<String>,
    pub(super) needed: Vec<String>,
    pub(super) filters: Vec<String>,
    pub(super) rpath: Option<String>,
    pub(super) runpath: Option<String>,
    pub(super) imports: Vec<Import>,
    pub(super) exports: Vec<Export>,
    pub(super) init_array: u64,
    pub(super) fini_array: u64,
    pub(super) text_relocations: bool,
    pub(super) irelative: bool,
    pub(super) registration: Registration,
}

/// Addresses and sizes of the tables.
#[derive(Default)]
struct Tables {
    symtab: Option<u64>,
    strtab: Option<u64>,
    strsz: u64,
    hash: Option<u64>,
    gnu_hash: Option<u64>,
    versym: Option<u64>,
    verneed: Option<u64>,
    rela: Option<(u64, u64)>,
    jmprel: Option<(u64, u64)>,
}

const DT_AUDIT: i64 = 0x6fff_fefc;
const DT_DEPAUDIT: i64 = 0x6fff_fefb;
/// `DT_FLAGS` bit that stands for `DT_TEXTREL`.
const DF_TEXTREL: u64 = 4;
/// Entries of pointer arrays are 8 bytes in 64-bit ELF.
const POINTER: u64 = 8;

pub(super) fn read(image: &Image<'_>, machine: Machine) -> Result<Dynamic, InspectError> {
    let mut out = Dynamic::default();
    let entries = match image.segments.iter().rfind(|s| s.p_type(image.endian) == elf::PT_DYNAMIC) {
        None => return Ok(out),
        // The loader takes the last one and finds it by its address, so that is what counts.
        Some(s) => {
            let count = s.p_memsz(image.endian) / size_of::<elf::Dyn64<Endianness>>() as u64;
            image.table::<elf::Dyn64<Endianness>>(s.p_vaddr(image.endian), count)
        }
    };
    if entries.is_empty() {
        return Err(InspectError::Malformed { what: "dynamic segment outside the loaded segments" });
    }
    let tables = tables(entries, image.endian, &mut out);
    let strings = strings(image, &tables)?;
    name_strings(entries, image.endian, strings, &mut out)?;
    let relocations = relocations(image, &tables);
    out.irelative = relocations.iter().any(|r| is_irelative(machine, r.r_type(image.endian, false).0));
    let count = symbol_count(image, &tables, &relocations);
    let symbols: &[Sym64<Endianness>] = match tables.symtab {
        Some(address) => image.table(address, count),
        None => &[],
    };
    if (symbols.len() as u64) < count {
        return Err(InspectError::Malformed { what: "dynamic symbol table is cut off" });
    }
    let versions = match (tables.versym, tables.verneed) {
        (Some(versym), Some(verneed)) => {
            Versions::read(image, versym, symbols.len() as u64, verneed, strings)
        }
        _ => Versions::default(),
    };
    for (index, symbol) in symbols.iter().enumerate().skip(1) {
        sort_symbol(image.endian, symbol, index, strings, &versions, &mut out)?;
    }
    out.registration = registration::read(image, machine, &relocations, |index| {
        symbols
            .get(index as usize)
            .is_some_and(|s| s.name(image.endian, strings).is_ok_and(|name| name == registration::FUNCTION))
    });
    Ok(out)
}

fn tables(entries: &[elf::Dyn64<Endianness>], endian: Endianness, out: &mut Dynamic) -> Tables {
    let mut t = Tables::default();
    let (mut rela, mut relasz, mut jmprel, mut pltrelsz) = (None, 0, None, 0);
    for entry in live(entries, endian) {
        let value = entry.val(endian);
        match entry.tag(endian) {
            elf::DT_SYMTAB => t.symtab = Some(value),
            elf::DT_STRTAB => t.strtab = Some(value),
            elf::DT_STRSZ => t.strsz = value,
            elf::DT_HASH => t.hash = Some(value),
            elf::DT_GNU_HASH => t.gnu_hash = Some(value),
            elf::DT_VERSYM => t.versym = Some(value),
            elf::DT_VERNEED => t.verneed = Some(value),
            elf::DT_RELA => rela = Some(value),
            elf::DT_RELASZ => relasz = value,
            elf::DT_JMPREL => jmprel = Some(value),
            elf::DT_PLTRELSZ => pltrelsz = value,
            elf::DT_INIT_ARRAYSZ => out.init_array = value / POINTER,
            elf::DT_FINI_ARRAYSZ => out.fini_array = value / POINTER,
            elf::DT_TEXTREL => out.text_relocations = true,
            elf::DT_FLAGS if value & DF_TEXTREL != 0 => out.text_relocations = true,
            _ => {}
        }
    }
    t.rela = rela.map(|address| (address, relasz));
    t.jmprel = jmprel.map(|address| (address, pltrelsz));
    t
}

/// Entries before the terminator.
fn live(
    entries: &[elf::Dyn64<Endianness>],
    endian: Endianness,
) -> impl Iterator<Item = &elf::Dyn64<Endianness>> {
    entries.iter().take_while(move |e| e.tag(endian) != elf::DT_NULL)
}

fn strings<'d>(image: &Image<'d>, tables: &Tables) -> Result<StringTable<'d>, InspectError> {
    let Some(address) = tables.strtab else { return Ok(StringTable::default()) };
    let data = image.at(address).ok_or(InspectError::Malformed { what: "dynamic string table" })?;
    let size = usize::try_from(tables.strsz).unwrap_or(usize::MAX).min(data.len());
    Ok(StringTable::new(&data[..size], 0, size as u64))
}

fn name_strings(
    entries: &[elf::Dyn64<Endianness>],
    endian: Endianness,
    strings: StringTable<'_>,
    out: &mut Dynamic,
) -> Result<(), InspectError> {
    for entry in live(entries, endian) {
        let tag = entry.tag(endian);
        let named = matches!(
            tag,
            elf::DT_NEEDED
                | elf::DT_SONAME
                | elf::DT_RPATH
                | elf::DT_RUNPATH
                | elf::DT_AUXILIARY
                | elf::DT_FILTER
        ) || matches!(tag.0, DT_AUDIT | DT_DEPAUDIT);
        if !named {
            continue;
        }
        let offset = u32::try_from(entry.val(endian)).unwrap_or(u32::MAX);
        let name =
            strings.get(offset).map(text).map_err(|()| InspectError::Malformed { what: "dynamic string" })?;
        match tag {
            elf::DT_NEEDED => out.needed.push(name),
            elf::DT_SONAME => out.soname = Some(name),
            elf::DT_RPATH => out.rpath = Some(name),
            elf::DT_RUNPATH => out.runpath = Some(name),
            _ => out.filters.push(name),
        }
    }
    Ok(())
}

fn relocations<'d>(image: &Image<'d>, tables: &Tables) -> Vec<&'d Rela64<Endianness>> {
    [tables.rela, tables.jmprel]
        .into_iter()
        .flatten()
        .flat_map(|(address, size)| {
            image.table::<Rela64<Endianness>>(address, size / size_of::<Rela64<Endianness>>() as u64)
        })
        .collect()
}

fn is_irelative(machine: Machine, kind: u32) -> bool {
    match machine {
        Machine::X86_64 => kind == 37,
        Machine::Aarch64 => kind == 1032,
        Machine::Other(_) => false,
    }
}

/// How many dynamic symbols there are. No tag says so: the hash tables cover what can be looked up, and the
/// relocations cover what is used (a file without exports has an empty GNU hash table and still imports).
fn symbol_count(image: &Image<'_>, tables: &Tables, relocations: &[&Rela64<Endianness>]) -> u64 {
    let hashed = tables
        .hash
        .and_then(|a| image.at(a))
        .and_then(|d| HashTable::<Header>::parse(image.endian, d).ok())
        .map_or(0, |h| h.symbol_table_length());
    let gnu_hashed = tables
        .gnu_hash
        .and_then(|a| image.at(a))
        .and_then(|d| GnuHashTable::<Header>::parse(image.endian, d).ok())
        .map_or(0, |h| h.symbol_table_length(image.endian).unwrap_or(0));
    let relocated =
        relocations.iter().map(|r| u64::from(r.r_sym(image.endian, false)) + 1).max().unwrap_or(0);
    u64::from(hashed.max(gnu_hashed)).max(relocated)
}

fn sort_symbol(
    endian: Endianness,
    symbol: &Sym64<Endianness>,
    index: usize,
    strings: StringTable<'_>,
    versions: &Versions<'_>,
    out: &mut Dynamic,
) -> Result<(), InspectError> {
    if symbol.st_bind() == elf::STB_LOCAL {
        return Ok(());
    }
    let name =
        symbol.name(endian, strings).map_err(|_| InspectError::Malformed { what: "dynamic symbol name" })?;
    if name.is_empty() {
        return Ok(());
    }
    let name = text(name);
    let weak = symbol.st_bind() == elf::STB_WEAK;
    if symbol.is_undefined(endian) {
        let (version, library) = versions.of(endian, index).unzip();
        out.imports.push(Import { name, version: version.map(text), library: library.map(text), weak });
        return Ok(());
    }
    if matches!(symbol.st_visibility(), elf::STV_HIDDEN | elf::STV_INTERNAL) {
        return Ok(());
    }
    let kind = match symbol.st_type() {
        elf::STT_FUNC => ExportKind::Function,
        elf::STT_GNU_IFUNC => ExportKind::IndirectFunction,
        elf::STT_OBJECT | elf::STT_TLS | elf::STT_COMMON => ExportKind::Object,
        _ => ExportKind::Other,
    };
    out.exports.push(Export { name, kind, size: symbol.st_size(endian), weak });
    Ok(())
}

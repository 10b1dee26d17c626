//! Storage that a call may not depend on.

use super::{ContentError, SlotBuffers, tile, view_of};
use crate::codec::read_i64;
use crate::view::for_each_span;
use kernelseek_core::case::{Case, Garbage, TensorCase};

/// Overwrites everything of `tensor` outside its used ranges.
pub(super) fn apply(
    case: &Case,
    slot: &mut SlotBuffers<'_>,
    tensor: &TensorCase,
    storage: usize,
    garbage: &Garbage,
) -> Result<(), ContentError> {
    let pages = garbage.table.as_ref().and_then(|name| PageTable::of(case, slot, name));
    let (used, inner) = used_blocks(case, tensor, garbage, pages)?;
    let view = view_of(case, tensor, storage)?;
    let Some(bytes) = slot.storages.get_mut(storage) else { return Ok(()) };
    let mut block = 0;
    while block < used.len() {
        let length = used[block..].iter().take_while(|&&u| u == used[block]).count();
        if !used[block] {
            for_each_span(&view, tensor.dtype.size(), (block * inner, length * inner), |range, _| {
                if let Some(span) = bytes.get_mut(range) {
                    tile(tensor.dtype, garbage.value, span);
                }
            });
        }
        block += length;
    }
    Ok(())
}

/// Whether each (axis 0, axis 1) block is used, and the elements of one block.
pub(super) fn used_blocks(
    case: &Case,
    tensor: &TensorCase,
    garbage: &Garbage,
    pages: Option<PageTable>,
) -> Result<(Vec<bool>, usize), ContentError> {
    let misuse = |reason: String| ContentError::misuse(tensor, reason);
    let extents: Vec<usize> = tensor.shape.iter().map(|&d| d.max(0) as usize).collect();
    let [outer, along, rest @ ..] = extents.as_slice() else {
        return Err(misuse("unused storage needs two axes".to_owned()));
    };
    let (outer, along) = (*outer, *along);
    let mut used = vec![false; outer * along];
    let rows = match &garbage.table {
        None => outer,
        Some(name) => case.tensor(name).and_then(|t| t.shape.first()).map_or(0, |&d| d.max(0) as usize),
    };
    if garbage.start.len() != rows || garbage.end.len() != rows {
        let reason = format!("{} and {} bounds for {rows} rows", garbage.start.len(), garbage.end.len());
        return Err(misuse(reason));
    }
    let page = match &garbage.table {
        None => None,
        Some(name) => Some(
            pages.ok_or_else(|| misuse(format!("`{name}` is no present page table of two integer axes")))?,
        ),
    };
    let limit = page.as_ref().map_or(along, |p| p.columns * along);
    for (row, (&start, &end)) in garbage.start.iter().zip(&garbage.end).enumerate() {
        let bounds = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let Some((start, end)) = bounds.filter(|&(_, e)| e <= limit) else {
            return Err(misuse(format!("used range {start}..{end} of row {row} is outside 0..{limit}")));
        };
        for position in start..end {
            let (block, within) = match &page {
                None => (Some(row), position),
                Some(table) => (table.page(row, position / along), position % along),
            };
            let block = block.filter(|&b| b < outer);
            let block = block.ok_or_else(|| misuse(format!("row {row} uses a page outside the pool")))?;
            used[block * along + within] = true;
        }
    }
    Ok((used, rest.iter().product()))
}

/// A page table's entries; -1 for what is no page.
pub(super) struct PageTable {
    columns: usize,
    pages: Vec<i64>,
}

impl PageTable {
    fn of(case: &Case, slot: &SlotBuffers<'_>, name: &str) -> Option<Self> {
        let tensor = case.tensor(name)?;
        let mut packed = Vec::new();
        crate::view::pack(tensor, slot.storages.get(tensor.storage?)?, &mut packed).ok()?;
        Self::packed(tensor, &packed)
    }

    /// From the elements of a page table, dense and in logical order.
    pub(super) fn packed(tensor: &TensorCase, bytes: &[u8]) -> Option<Self> {
        let &[_, columns] = tensor.shape.as_slice() else { return None };
        if tensor.dtype.is_float() {
            return None;
        }
        let pages = (0..tensor.len()).map(|at| read_i64(tensor.dtype, bytes, at).unwrap_or(-1)).collect();
        Some(Self { columns: columns.max(0) as usize, pages })
    }

    fn page(&self, row: usize, column: usize) -> Option<usize> {
        usize::try_from(*self.pages.get(row * self.columns + column)?).ok()
    }
}

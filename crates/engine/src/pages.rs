//! The cache pages of a device: who owns them, what they hold, and which one is given up next.
//!
//! A page is in one of three places: **owned** by one or several sequences, **kept** for a sequence that will begin in
//! the same way (full, nobody owns it, the one used longest ago goes first), or **free**. A full page is found by its
//! [`PageHash`]. A page that a sequence is about to fill with tokens that are known already is *promised* under its
//! hash, so that another one that needs the same can wait for it instead of doing the same work.
//!
//! Everything is an index into lists of the size of the pool: after `new` nothing is allocated.

use std::collections::{HashMap, hash_map};

use program::PageId;

use crate::prefix::PageHash;

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Rows that nobody else may read, or none.
    Private,
    /// Some of the rows that this hash names; the rest is being computed.
    Promised(PageHash),
    /// The rows that this hash names. They are not written any more.
    Ready(PageHash),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// How many sequences have it in their page tables.
    owners: u32,
    content: Content,
    /// Its neighbours among the kept pages; 0, the device's scratch page, is the end on both sides.
    older: u32,
    newer: u32,
}

/// A page found by its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) page: PageId,
    /// Whether all its rows are there.
    pub(crate) ready: bool,
    /// Whether some sequence owns it, so that to share it costs nothing.
    pub(crate) owned: bool,
}

/// All pages of a device but its scratch page.
#[derive(Debug)]
pub(crate) struct Pages {
    /// One a page. Entry 0 is both ends of the ring of kept pages.
    entries: Vec<Entry>,
    free: Vec<PageId>,
    by_hash: HashMap<PageHash, PageId>,
    kept: usize,
}

impl Pages {
    /// Pages `1..=count`, all free, the lowest to be taken first.
    pub(crate) fn new(count: u32) -> Pages {
        let entry = Entry { owners: 0, content: Content::Private, older: 0, newer: 0 };
        Pages {
            entries: vec![entry; count as usize + 1],
            free: (1..=count).rev().map(PageId).collect(),
            by_hash: HashMap::with_capacity(count as usize),
            kept: 0,
        }
    }

    /// Pages that nobody owns: free, or given up when they are needed.
    pub(crate) fn available(&self) -> usize {
        self.free.len() + self.kept
    }

    /// Those of them that hold a full page which a sequence may ask for again.
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }

    /// A page that is now the caller's alone, or none if all are owned.
    pub(crate) fn take(&mut self) -> Option<PageId> {
        let page = match self.free.pop() {
            Some(page) => page,
            None if self.kept > 0 => self.give_up_oldest(),
            None => return None,
        };
        self.entry(page).owners = 1;
        Some(page)
    }

    /// The page that is or will be named so.
    pub(crate) fn find(&self, hash: &PageHash) -> Option<Found> {
        let page = *self.by_hash.get(hash)?;
        let Entry { owners, content, .. } = self.entries[page.0 as usize];
        Some(Found { page, ready: matches!(content, Content::Ready(_)), owned: owners > 0 })
    }

    /// Makes the caller one more owner of a page that is ready.
    pub(crate) fn share(&mut self, page: PageId) {
        debug_assert!(matches!(self.entries[page.0 as usize].content, Content::Ready(_)));
        if self.entries[page.0 as usize].owners == 0 {
            self.unlink(page);
        }
        self.entry(page).owners += 1;
    }

    /// Says that the only owner is going to fill the page with these rows. Does nothing if there is another page of
    /// that name.
    pub(crate) fn promise(&mut self, page: PageId, hash: PageHash) {
        if let hash_map::Entry::Vacant(name) = self.by_hash.entry(hash) {
            name.insert(page);
            self.entry(page).content = Content::Promised(hash);
        }
    }

    /// Says that an owner has filled the page with these rows. Does nothing if there is another page of that name.
    pub(crate) fn publish(&mut self, page: PageId, hash: PageHash) {
        self.promise(page, hash);
        if self.entries[page.0 as usize].content == Content::Promised(hash) {
            self.entry(page).content = Content::Ready(hash);
        }
    }

    /// Says that the page is not to be found any more: it holds wrong rows, or will be written again.
    pub(crate) fn withdraw(&mut self, page: PageId) {
        if let Content::Promised(hash) | Content::Ready(hash) = self.entries[page.0 as usize].content {
            self.by_hash.remove(&hash);
            self.entry(page).content = Content::Private;
        }
    }

    /// Whether the page can be found, and so must not be written any more.
    pub(crate) fn is_ready(&self, page: PageId) -> bool {
        matches!(self.entries[page.0 as usize].content, Content::Ready(_))
    }

    /// Takes back a page from one of its owners. The last owner's page is kept if it is ready, and free otherwise.
    pub(crate) fn give(&mut self, page: PageId) {
        let entry = self.entry(page);
        debug_assert!(entry.owners > 0, "{page:?} was given back once too often");
        entry.owners -= 1;
        if entry.owners > 0 {
            return;
        }
        if self.is_ready(page) {
            self.link_as_newest(page);
        } else {
            self.withdraw(page);
            self.free.push(page);
        }
    }

    fn entry(&mut self, page: PageId) -> &mut Entry {
        &mut self.entries[page.0 as usize]
    }

    /// The kept page used longest ago, which is in no list after this. A tier below the pool would copy it here.
    fn give_up_oldest(&mut self) -> PageId {
        let page = PageId(self.entries[0].newer);
        self.unlink(page);
        self.withdraw(page);
        page
    }

    fn unlink(&mut self, page: PageId) {
        let Entry { older, newer, .. } = self.entries[page.0 as usize];
        self.entries[older as usize].newer = newer;
        self.entries[newer as usize].older = older;
        self.kept -= 1;
    }

    fn link_as_newest(&mut self, page: PageId) {
        let newest = self.entries[0].older;
        self.entries[newest as usize].newer = page.0;
        self.entries[0].older = page.0;
        let entry = self.entry(page);
        (entry.older, entry.newer) = (newest, 0);
        self.kept += 1;
    }

    /// Checks that every page is in one place and has as many owners as `tables`, the page tables of all sequences,
    /// name it. It walks everything: for tests, and for moments when nothing is under way.
    ///
    /// # Errors
    /// With the page and what is wrong with it.
    pub(crate) fn audit<'a>(&self, tables: impl Iterator<Item = &'a [PageId]>) -> Result<(), String> {
        let mut owners = vec![0; self.entries.len()];
        tables.flatten().for_each(|page| owners[page.0 as usize] += 1);
        let mut places = vec![0; self.entries.len()];
        self.free.iter().for_each(|page| places[page.0 as usize] += 1);
        let (mut page, mut kept) = (self.entries[0].newer, 0);
        while page != 0 && kept <= self.kept {
            places[page as usize] += 1;
            kept += 1;
            if !matches!(self.entries[page as usize].content, Content::Ready(_)) {
                return Err(format!("page {page} is kept and not ready"));
            }
            page = self.entries[page as usize].newer;
        }
        if kept != self.kept {
            return Err(format!("{} pages should be kept, the list has {kept}", self.kept));
        }
        let mut named = 0;
        for (page, entry) in self.entries.iter().enumerate().skip(1) {
            if entry.owners != owners[page] {
                return Err(format!("page {page} counts {} owners and has {}", entry.owners, owners[page]));
            }
            let places = places[page] + usize::from(entry.owners > 0);
            if places != 1 {
                return Err(format!("page {page} is in {places} places, with {} owners", entry.owners));
            }
            match entry.content {
                Content::Private if entry.owners > 1 => {
                    return Err(format!("page {page} is private and has {} owners", entry.owners));
                }
                Content::Private => {}
                Content::Promised(hash) | Content::Ready(hash) => {
                    named += 1;
                    if self.by_hash.get(&hash) != Some(&PageId(page as u32)) {
                        return Err(format!("page {page} is not found under its name"));
                    }
                }
            }
        }
        if named != self.by_hash.len() {
            return Err(format!("{} names for {named} pages", self.by_hash.len()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u8) -> PageHash {
        PageHash([number; 32])
    }

    /// A page that holds what `number` names and that nobody owns.
    fn keep(pages: &mut Pages, number: u8) -> PageId {
        let page = pages.take().unwrap();
        pages.publish(page, hash(number));
        pages.give(page);
        page
    }

    fn audit(pages: &Pages, owned: &[PageId]) {
        pages.audit([owned].into_iter()).unwrap();
    }

    #[test]
    fn free_pages_go_first_then_the_kept_one_used_longest_ago() {
        let mut pages = Pages::new(3);
        let (first, second) = (keep(&mut pages, 1), keep(&mut pages, 2));
        assert_eq!((pages.available(), pages.kept()), (3, 2));
        pages.share(first);
        pages.give(first);
        let taken = [pages.take().unwrap(), pages.take().unwrap(), pages.take().unwrap()];
        assert_eq!(taken, [PageId(3), second, first]);
        assert_eq!((pages.take(), pages.find(&hash(1)), pages.find(&hash(2))), (None, None, None));
        audit(&pages, &taken);
    }

    #[test]
    fn a_shared_page_is_kept_when_its_last_owner_gives_it_back() {
        let mut pages = Pages::new(2);
        let page = keep(&mut pages, 1);
        pages.share(page);
        pages.share(page);
        assert_eq!(pages.find(&hash(1)), Some(Found { page, ready: true, owned: true }));
        audit(&pages, &[page, page]);
        pages.give(page);
        assert_eq!(pages.available(), 1);
        pages.give(page);
        assert_eq!(pages.find(&hash(1)), Some(Found { page, ready: true, owned: false }));
        audit(&pages, &[]);
    }

    #[test]
    fn a_promise_is_gone_with_its_page_unless_it_was_kept() {
        let mut pages = Pages::new(2);
        let page = pages.take().unwrap();
        pages.promise(page, hash(1));
        assert_eq!(pages.find(&hash(1)), Some(Found { page, ready: false, owned: true }));
        audit(&pages, &[page]);
        pages.give(page);
        assert_eq!((pages.find(&hash(1)), pages.kept()), (None, 0));
        audit(&pages, &[]);
    }

    #[test]
    fn the_second_page_of_one_name_stays_private() {
        let mut pages = Pages::new(2);
        let (first, second) = (pages.take().unwrap(), pages.take().unwrap());
        pages.publish(first, hash(1));
        pages.publish(second, hash(1));
        assert!(pages.is_ready(first) && !pages.is_ready(second));
        audit(&pages, &[first, second]);
        pages.give(second);
        assert_eq!(pages.kept(), 0);
    }

    #[test]
    fn a_page_withdrawn_is_not_found_and_free_after_its_owner() {
        let mut pages = Pages::new(1);
        let page = pages.take().unwrap();
        pages.publish(page, hash(1));
        pages.withdraw(page);
        assert_eq!(pages.find(&hash(1)), None);
        audit(&pages, &[page]);
        pages.give(page);
        assert_eq!((pages.kept(), pages.available()), (0, 1));
        audit(&pages, &[]);
    }

    #[test]
    fn an_audit_names_the_page_that_is_wrong() {
        let mut pages = Pages::new(2);
        let page = pages.take().unwrap();
        assert_eq!(pages.audit([].into_iter()), Err("page 1 counts 1 owners and has 0".into()));
        let twice = [page, page];
        assert_eq!(pages.audit([&twice[..]].into_iter()), Err("page 1 counts 1 owners and has 2".into()));
        pages.entries[1].owners = 2;
        assert_eq!(pages.audit([&twice[..]].into_iter()), Err("page 1 is private and has 2 owners".into()));
    }
}

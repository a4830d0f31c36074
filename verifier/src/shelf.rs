//! A small map from texts, for what an isolate remembers.

/// A map from texts, as a sorted list: for a few thousand at most, since a change moves what comes after it. A hash map would be 3 KB of
/// code for each type of item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shelf<T>(Vec<(String, T)>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Shelf<T> {
    /// An empty one.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Where the key is, or else belongs.
    fn place(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| own.as_str().cmp(key))
    }

    /// The item of a key.
    pub fn get(&self, key: &str) -> Option<&T> {
        let place = self.place(key).ok()?;
        self.0.get(place).map(|(_, item)| item)
    }

    /// The item of a key, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut T> {
        let place = self.place(key).ok()?;
        self.0.get_mut(place).map(|(_, item)| item)
    }

    /// Puts an item under its key, in place of one that is there.
    pub fn insert(&mut self, key: &str, item: T) {
        self.remove(key);
        let (Ok(place) | Err(place)) = self.place(key);
        self.0.insert(place, (key.to_owned(), item));
    }

    /// Takes an item out.
    pub fn remove(&mut self, key: &str) -> Option<T> {
        let place = self.place(key).ok()?;
        Some(self.0.remove(place).1)
    }

    /// Keeps the items that `keep` says yes to.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.0.retain(|(_, item)| keep(item));
    }

    /// All, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &T)> {
        self.0.iter().map(|(key, item)| (key.as_str(), item))
    }
}

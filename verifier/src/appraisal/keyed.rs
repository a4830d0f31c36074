//! Maps from texts, of which a policy needs many.

use std::collections::BTreeMap;

/// A map from texts. Whatever the items are, the tree is of one type: one for each would be 4 KB of code for each.
#[derive(Debug, Clone)]
pub(super) struct Keyed<T> {
    places: BTreeMap<String, usize>,
    items: Vec<T>,
}

impl<T> Default for Keyed<T> {
    fn default() -> Self {
        Self { places: BTreeMap::new(), items: Vec::new() }
    }
}

/// The order of insertion means nothing.
impl<T: PartialEq> PartialEq for Keyed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.keys().eq(other.keys()) && self.items().eq(other.items())
    }
}

impl<T: Eq> Eq for Keyed<T> {}

impl<T> Keyed<T> {
    pub(super) fn get(&self, key: &str) -> Option<&T> {
        self.items.get(*self.places.get(key)?)
    }

    /// Returns the item that this one takes the place of.
    pub(super) fn insert(&mut self, key: String, item: T) -> Option<T> {
        let place = *self.places.entry(key).or_insert(self.items.len());
        if let Some(old) = self.items.get_mut(place) {
            return Some(std::mem::replace(old, item));
        }
        self.items.push(item);
        None
    }

    /// Keys, sorted.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// Items, sorted by key.
    pub(super) fn items(&self) -> impl Iterator<Item = &T> {
        self.places.values().filter_map(|place| self.items.get(*place))
    }
}

impl<T> Keyed<Vec<T>> {
    pub(super) fn push(&mut self, key: String, item: T) {
        let place = *self.places.entry(key).or_insert(self.items.len());
        match self.items.get_mut(place) {
            Some(list) => list.push(item),
            None => self.items.push(vec![item]),
        }
    }
}

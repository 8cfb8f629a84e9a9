//! Whether a tree, wherever it comes from, is one that the model allows at a cut.
//!
//! Nodes of the tree are matched with those of the recording from the root on, by names. For each
//! object the tree then says after which of its parts its value may have come. Sets of parts with
//! posix-P2 are closed under union, and so are those that agree with the objects one by one,
//! because the parts of an object are kept in order. So there is a largest one if there is any: it
//! is found by dropping parts until all objects agree. Only where a name may have led to several
//! nodes of equal content does the search have to try.

use super::cut::Cut;
use super::parts::{Effect, Field, Object};
use super::track::Track;
use super::{Bits, Posix};
use crate::call::{Attribute, Recording, What};
use crate::tree::{Kind, Node, NodeId, PAGE, ROOT, Tree};
use base::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Most ways of matching nodes that are tried.
const TRIES_MAX: u64 = 100_000;

impl Posix {
    /// Whether a cut may leave this tree when `calls` calls had begun, the last of which need not
    /// have ended. The numbers of its nodes do not matter.
    ///
    /// # Errors
    /// It may not, and what of it no call has left.
    pub fn allows(&self, recording: &Recording, calls: usize, tree: &Tree) -> Result<(), String> {
        self.find(recording, calls, tree).map(drop)
    }

    /// The cut and the fewest lost parts that leave this tree.
    ///
    /// # Errors
    /// As [`allows`](Posix::allows).
    pub fn find<'a>(
        &self,
        recording: &'a Recording,
        calls: usize,
        tree: &Tree,
    ) -> Result<(Cut<'a>, Bits), String> {
        let calls = calls.min(recording.calls.len());
        let ended = self.find_at(recording, calls, tree);
        // A sync that has not ended covers nothing.
        let last = calls.checked_sub(1).map(|last| &recording.calls[last].what);
        match (ended, last) {
            (Err(_), Some(What::Sync { .. } | What::SyncAll)) => {
                self.find_at(recording, calls - 1, tree)
            }
            (ended, _) => ended,
        }
    }

    fn find_at<'a>(
        &self,
        recording: &'a Recording,
        calls: usize,
        tree: &Tree,
    ) -> Result<(Cut<'a>, Bits), String> {
        let track = self.followed(recording, calls);
        let track = track.map_err(|e| e.to_string())?;
        let mut search = Search {
            grain: track.grain(),
            track: &track,
            tree,
            tries: 0,
            why: String::new(),
        };
        let mut matched = Matched::default();
        matched.open.push((ROOT, ROOT));
        matched.nodes.insert(ROOT, ROOT);
        matched.used.insert(ROOT);
        let Some(kept) = search.matching(matched) else {
            return Err(search.why);
        };
        let cut = Cut::new(track);
        let mut lost = Bits::none(cut.len());
        let dirty = cut.track.dirty.iter().enumerate();
        dirty
            .filter(|(_, part)| !kept[**part])
            .for_each(|(at, _)| lost.set(at));
        Ok((cut, lost))
    }
}

/// For each object, after how many of its parts it had the value that the tree shows.
type Fits = BTreeMap<Object, Vec<bool>>;

#[derive(Clone, Default)]
struct Matched {
    /// Nodes of the tree and of the recording that are still to be compared.
    open: Vec<(NodeId, NodeId)>,
    /// By node of the tree.
    nodes: BTreeMap<NodeId, NodeId>,
    used: BTreeSet<NodeId>,
    fits: Fits,
}

struct Search<'a, 'b> {
    track: &'a Track<'b>,
    tree: &'a Tree,
    grain: u64,
    tries: u64,
    /// Why the last way failed.
    why: String,
}

impl Search<'_, '_> {
    /// The parts that are kept, if there is a way.
    fn matching(&mut self, mut matched: Matched) -> Option<Vec<bool>> {
        self.tries += 1;
        if self.tries > TRIES_MAX {
            self.why = format!("not decided after {TRIES_MAX} ways of matching its files");
            return None;
        }
        while let Some((seen, node)) = matched.open.pop() {
            let fits = self.note(self.node_fits(seen, node))?;
            matched.fits.extend(fits);
            let names = self.names(seen, node);
            for name in &names {
                let slot = Object {
                    node,
                    field: Field::Name(name.clone()),
                };
                let values = self.name_values(&slot, name);
                let Some(&child) = self.tree.node(seen)?.names.get(name) else {
                    let none = values.iter().map(Option::is_none).collect();
                    matched.fits.insert(slot, none);
                    continue;
                };
                let choices = self.choices(&matched, child, &values);
                if choices.is_empty() && self.why.is_empty() {
                    let name = base::plain::shown(name);
                    self.why = format!("no call has left what is named {name}");
                }
                let (&first, others) = choices.split_first()?;
                // Names that are still to be looked at come again for each other choice.
                for &choice in others {
                    let mut other = matched.clone();
                    other.open.push((seen, node));
                    self.choose(&mut other, child, choice);
                    let kept = self.matching(other);
                    if kept.is_some() {
                        return kept;
                    }
                }
                self.choose(&mut matched, child, first);
                let fit = values.iter().map(|v| *v == Some(first)).collect();
                matched.fits.insert(slot, fit);
            }
        }
        let kept = self.largest(&matched.fits);
        self.note(kept)
    }

    fn note<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|why| self.why = why).ok()
    }

    fn choose(&self, matched: &mut Matched, child: NodeId, node: NodeId) {
        if matched.nodes.insert(child, node).is_none() {
            matched.used.insert(node);
            matched.open.push((child, node));
        }
    }

    /// The nodes of the recording that a name can lead to, newest first.
    fn choices(
        &mut self,
        matched: &Matched,
        child: NodeId,
        values: &[Option<NodeId>],
    ) -> Vec<NodeId> {
        if let Some(&node) = matched.nodes.get(&child) {
            return values
                .contains(&Some(node))
                .then_some(node)
                .into_iter()
                .collect();
        }
        let mut choices = Vec::new();
        for &node in values.iter().rev().flatten() {
            if choices.contains(&node) || matched.used.contains(&node) {
                continue;
            }
            match self.node_fits(child, node) {
                Ok(_) => choices.push(node),
                Err(why) => self.why = why,
            }
        }
        choices
    }

    /// All names that the directory has in the tree or ever had.
    fn names(&self, seen: NodeId, node: NodeId) -> Vec<Vec<u8>> {
        let mut names: BTreeSet<Vec<u8>> = BTreeSet::new();
        let shown = self.tree.node(seen).map(|seen| &seen.names);
        let initial = &self.track.nodes[&node].initial.names;
        names.extend(
            shown
                .into_iter()
                .chain([initial])
                .flat_map(|n| n.keys())
                .cloned(),
        );
        for (object, _) in self.objects(node) {
            if let Field::Name(name) = &object.field {
                names.insert(name.clone());
            }
        }
        names.into_iter().collect()
    }

    fn objects(&self, node: NodeId) -> impl Iterator<Item = (&Object, &Vec<usize>)> {
        let from = Object {
            node,
            field: Field::Size,
        };
        let to = Object {
            node,
            field: Field::Grain(u64::MAX),
        };
        self.track.chains.range(from..=to)
    }

    fn chain(&self, object: &Object) -> &[usize] {
        self.track.chains.get(object).map_or(&[], Vec::as_slice)
    }

    /// The effects on a node of each part of an object.
    fn effects(&self, object: &Object) -> impl Iterator<Item = Vec<&Effect>> {
        self.chain(object).iter().map(|&part| {
            let effects = self.track.parts[part].piece.effects.iter();
            let own = effects.filter(|(node, _)| *node == object.node);
            own.map(|(_, effect)| effect).collect()
        })
    }

    fn name_values(&self, slot: &Object, name: &[u8]) -> Vec<Option<NodeId>> {
        let mut value = self.track.nodes[&slot.node]
            .initial
            .names
            .get(name)
            .copied();
        let mut values = vec![value];
        for effects in self.effects(slot) {
            for effect in effects {
                match effect {
                    Effect::Name(changed, to) if changed == name => value = *to,
                    _ => (),
                }
            }
            values.push(value);
        }
        values
    }

    /// What the tree says of a node's objects but its names.
    fn node_fits(&self, seen: NodeId, node: NodeId) -> Result<Fits, String> {
        let path = self.track.path(node);
        let Some(shown) = self.tree.node(seen) else {
            return Err(format!("{path}: a name without a node"));
        };
        let initial = &self.track.nodes[&node].initial;
        if shown.kind != initial.kind {
            return Err(format!("{path} was made as {:?}", initial.kind));
        }
        let mut fits = Fits::new();
        let mut add = |field: Field, fit: Vec<bool>, what: &str| {
            let any = fit.contains(&true);
            fits.insert(Object { node, field }, fit);
            any.then_some(())
                .ok_or_else(|| format!("no call has left {what} of {path}"))
        };
        for field in self.attributes(shown, node) {
            let fit = self.attribute_fit(shown, node, &field);
            add(field, fit, "the attributes")?;
        }
        if shown.kind == Kind::File {
            let what = format!("the size {}", shown.size);
            add(Field::Size, self.size_fit(shown, node), &what)?;
            for grain in self.grains(shown, node) {
                let what = format!("the content at {}", grain * self.grain);
                add(
                    Field::Grain(grain),
                    self.grain_fit(shown, node, grain),
                    &what,
                )?;
            }
        }
        Ok(fits)
    }

    fn attributes(&self, shown: &Node, node: NodeId) -> BTreeSet<Field> {
        let initial = &self.track.nodes[&node].initial;
        let names = shown.xattrs.keys().chain(initial.xattrs.keys());
        let mut fields: BTreeSet<Field> = names.cloned().map(Field::Xattr).collect();
        fields.extend([Field::Mode, Field::Owner]);
        let changed = self.objects(node).map(|(object, _)| object.field.clone());
        fields.extend(changed.filter(|field| matches!(field, Field::Xattr(_))));
        fields
    }

    fn attribute_fit(&self, shown: &Node, node: NodeId, field: &Field) -> Vec<bool> {
        let same = |now: &Node| match field {
            Field::Mode => now.mode == shown.mode,
            Field::Owner => now.owner == shown.owner,
            Field::Xattr(name) => now.xattrs.get(name) == shown.xattrs.get(name),
            _ => true,
        };
        let initial = &self.track.nodes[&node].initial;
        let mut now = Node::new(initial.kind.clone(), initial.mode, initial.owner);
        now.xattrs.clone_from(&initial.xattrs);
        let mut fit = vec![same(&now)];
        let object = Object {
            node,
            field: field.clone(),
        };
        for effects in self.effects(&object) {
            for effect in effects {
                if matches!(
                    effect,
                    Effect::Attribute(Attribute::Mode(_) | Attribute::Owner(..))
                ) || matches!(effect, Effect::Attribute(Attribute::Xattr(..)))
                {
                    effect.apply(&mut now);
                }
            }
            fit.push(same(&now));
        }
        fit
    }

    /// A size that grows by steps may also stop between those that are explored, at a grain.
    fn size_fit(&self, shown: &Node, node: NodeId) -> Vec<bool> {
        let object = Object {
            node,
            field: Field::Size,
        };
        let mut sizes = vec![self.track.nodes[&node].initial.size];
        for effects in self.effects(&object) {
            let size = effects.iter().find_map(|effect| match effect {
                Effect::Size(size) => Some(*size),
                _ => None,
            });
            sizes.push(size.unwrap_or(0));
        }
        let stepwise = |at: usize| {
            let part = self.chain(&object).get(at);
            part.is_some_and(|&part| {
                let part = &self.track.parts[part];
                let what = &self.track.recording.calls[part.call].what;
                part.piece.effects.len() == 1 && !matches!(what, What::Truncate { .. })
            })
        };
        let between = |at: usize| {
            let next = sizes.get(at + 1).copied().unwrap_or(0);
            sizes[at] < shown.size && shown.size < next && shown.size.is_multiple_of(self.grain)
        };
        (0..sizes.len())
            .map(|at| sizes[at] == shown.size || between(at) && stepwise(at))
            .collect()
    }

    /// Grains that the tree shows or that were ever written, inside of the size.
    fn grains(&self, shown: &Node, node: NodeId) -> BTreeSet<u64> {
        let per_page = PAGE / self.grain;
        let initial = &self.track.nodes[&node].initial;
        let pages = shown.pages.keys().chain(initial.pages.keys());
        let mut grains: BTreeSet<u64> = pages
            .flat_map(|p| p * per_page..(p + 1) * per_page)
            .collect();
        let changed = self
            .objects(node)
            .filter_map(|(object, _)| match object.field {
                Field::Grain(grain) => Some(grain),
                _ => None,
            });
        grains.extend(changed);
        grains.retain(|grain| grain * self.grain < shown.size);
        grains
    }

    fn grain_fit(&self, shown: &Node, node: NodeId, grain: u64) -> Vec<bool> {
        let from = grain * self.grain;
        let to = (from + self.grain).min(shown.size);
        let page = from / PAGE;
        let range = (from - page * PAGE) as usize..(to - page * PAGE) as usize;
        let zeros = Bytes::from_static(&[0; PAGE as usize]);
        let same = |now: &Node| {
            let of = |node: &Node| node.pages.get(&page).unwrap_or(&zeros).slice(range.clone());
            of(now) == of(shown)
        };
        let mut now = Node::new(Kind::File, 0, (0, 0));
        let initial = self.track.nodes[&node].initial.pages.get(&page);
        now.pages
            .extend(initial.map(|content| (page, content.clone())));
        let mut fit = vec![same(&now)];
        let object = Object {
            node,
            field: Field::Grain(grain),
        };
        for effects in self.effects(&object) {
            for effect in effects {
                match effect {
                    Effect::Data { offset, .. } | Effect::Zero { offset, .. }
                        if offset / self.grain == grain =>
                    {
                        effect.apply(&mut now);
                    }
                    Effect::Free(first) if *first <= page => effect.apply(&mut now),
                    _ => (),
                }
            }
            fit.push(same(&now));
        }
        fit
    }

    /// The largest set of kept parts that agrees with all objects.
    fn largest(&self, fits: &Fits) -> Result<Vec<bool>, String> {
        let mut kept = vec![true; self.track.parts.len()];
        loop {
            let mut changed = false;
            for (object, fit) in fits {
                let chain = self.chain(object);
                let mut count = chain.iter().filter(|&&part| kept[part]).count();
                while !fit[count] {
                    let last = count.checked_sub(1).map(|last| chain[last]);
                    let dropped = last.and_then(|last| self.drop(last, &mut kept));
                    if dropped.is_none() {
                        return Err(self.refusal(object));
                    }
                    count = chain.iter().filter(|&&part| kept[part]).count();
                    changed = true;
                }
            }
            if !changed {
                return Ok(kept);
            }
        }
    }

    /// Drops a part with all that need it; `None`: one of them is durable.
    fn drop(&self, part: usize, kept: &mut [bool]) -> Option<()> {
        let mut open = vec![part];
        while let Some(part) = open.pop() {
            if !kept[part] {
                continue;
            }
            if self.track.is_durable(part) {
                return None;
            }
            kept[part] = false;
            open.extend(&self.track.needed_by[part]);
        }
        Some(())
    }

    fn refusal(&self, object: &Object) -> String {
        let path = self.track.path(object.node);
        let what = match &object.field {
            Field::Size => format!("the size of {path}"),
            Field::Mode | Field::Owner | Field::Xattr(_) => format!("an attribute of {path}"),
            Field::Name(name) => format!("the name {} in {path}", base::plain::shown(name)),
            Field::Grain(grain) => format!("the content of {path} at {}", grain * self.grain),
        };
        format!("{what} is older than its last sync, or older than what needs it")
    }
}

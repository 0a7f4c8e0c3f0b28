package flow

import (
	"slices"
	"strings"
)

// node is an actor, its tenant, or all.
type node[T any] struct {
	level, name string
	parent      *node[T] // nil of all
	bound       Load
	quantum     int64
	holds       Load
	pace        Throughput

	jobs     []*Job[T]           // of an actor: those that wait
	children map[string]*node[T] // of the others
	ring     []*node[T]          // children with something that may begin, in the order of their turns
	inRing   bool                // of its parent
	blocked  bool                // what comes next has to wait until something of this node ends
	credit   int64               // bytes left of its turn; below 0 it is ahead of the others
}

func (n *node[T]) child(name, level string, bound Load, quantum int64) *node[T] {
	c := n.children[name]
	if c == nil {
		c = &node[T]{level: level, name: strings.Clone(name), parent: n, bound: bound, quantum: quantum}
		if level == "tenant" {
			c.children = map[string]*node[T]{}
		}
		n.children[c.name] = c
	}
	return c
}

// turn returns the actor whose turn it is. There has to be one in the ring.
func (n *node[T]) turn() *node[T] {
	for len(n.ring) > 0 {
		next := n.ring[0]
		for next.credit <= 0 {
			next.credit += next.quantum
			if len(n.ring) > 1 {
				n.ring = append(n.ring[1:], next)
				next = n.ring[0]
			}
		}
		n = next
	}
	return n
}

// settle puts a node into the ring of its parent, or takes it out, and its parent likewise.
func (n *node[T]) settle() {
	for ; n.parent != nil; n = n.parent {
		in := !n.blocked && (len(n.jobs) > 0 || len(n.ring) > 0)
		if in == n.inRing {
			return
		}
		n.inRing = in
		if in {
			n.credit = min(n.credit, 0) + n.quantum
			n.parent.ring = append(n.parent.ring, n)
		} else {
			at := slices.Index(n.parent.ring, n)
			n.parent.ring = slices.Delete(n.parent.ring, at, at+1)
		}
	}
}

// blockedBy returns the first of the node and those above that has no hand for more; nil where all have.
func (n *node[T]) blockedBy(more Load) *node[T] {
	for ; n != nil; n = n.parent {
		alone := n.holds.Slots == 0 && n.holds.Running == 0
		if !alone && !n.fits(more) {
			return n
		}
	}
	return nil
}

// fits reports whether more is within the bound of the node, as far as it takes anything.
func (n *node[T]) fits(more Load) bool {
	in := func(holds, more, most int64) bool { return more == 0 || most == 0 || holds+more <= most }
	h, b := n.holds, n.bound
	return in(h.Items, more.Items, b.Items) && in(h.Bytes, more.Bytes, b.Bytes) &&
		in(h.Slots, more.Slots, b.Slots) && in(h.Running, more.Running, b.Running)
}

// remove takes out a job that waits, and reports whether it did.
func (n *node[T]) remove(j *Job[T]) bool {
	at := slices.Index(n.jobs, j)
	if at >= 0 {
		n.jobs = slices.Delete(n.jobs, at, at+1)
	}
	return at >= 0
}

func (l Load) plus(m Load) Load {
	return Load{l.Items + m.Items, l.Bytes + m.Bytes, l.Slots + m.Slots, l.Running + m.Running}
}

func (l Load) minus(m Load) Load {
	return Load{l.Items - m.Items, l.Bytes - m.Bytes, l.Slots - m.Slots, l.Running - m.Running}
}

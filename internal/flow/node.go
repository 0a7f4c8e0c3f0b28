package flow

import (
	"slices"
	"strings"
)

// node is an actor, a tenant, or the root of a [Queue].
type node[T any] struct {
	level, name string
	parent      *node[T] // nil for the root
	bound       Load
	quantum     int64
	holds       Load
	pace        Throughput

	jobs     []*Job[T]           // for an actor: the waiting jobs
	children map[string]*node[T] // for the root and tenants
	ring     []*node[T]          // children with a job that may begin, in the order of their turns
	inRing   bool                // of its parent
	blocked  bool                // its next job must wait until a job of this node ends
	credit   int64               // bytes left of its turn; negative after a job larger than the turn
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

// turn returns the actor whose turn it is, by deficit round robin. The ring must not be empty.
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

// settle adds a node to the ring of its parent, or removes it, and does the same for its parents.
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

// blockedBy returns the first of the node and its parents that has no room for more. It returns nil if all have. A node
// without running jobs always has room.
func (n *node[T]) blockedBy(more Load) *node[T] {
	for ; n != nil; n = n.parent {
		alone := n.holds.Slots == 0 && n.holds.Running == 0
		if !alone && !n.fits(more) {
			return n
		}
	}
	return nil
}

// fits reports whether the node has room for more within its limits. A zero field of more or of the limits is not
// compared.
func (n *node[T]) fits(more Load) bool {
	in := func(holds, more, most int64) bool { return more == 0 || most == 0 || holds+more <= most }
	h, b := n.holds, n.bound
	return in(h.Items, more.Items, b.Items) && in(h.Bytes, more.Bytes, b.Bytes) &&
		in(h.Slots, more.Slots, b.Slots) && in(h.Running, more.Running, b.Running)
}

// remove removes a waiting job. It reports whether the job was waiting.
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

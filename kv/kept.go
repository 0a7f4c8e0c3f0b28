package kv

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"
)

// keptIDs holds the ids of the calls of one partition whose logs have not expired, each with the sequence of the newest
// event, in about 24 bytes. A log that ends before that event has lost it, see [Log.whole]. The follower and the writes
// of this process add events, and an older event never replaces a newer one. Its methods are safe for concurrent use.
type keptIDs struct {
	times  func() (bus, steady time.Time) // see [bus.Clock.Times]
	listed atomic.Pointer[keptPart]       // gets what the follower reads; nil without a list
	shards [256]keptShard                 // by the first byte of the id: dropping expired ids holds no lock for long
}

type keptShard struct {
	mu   sync.Mutex
	ids  map[keptID]newest
	full int // number of ids from which on expired ones are dropped
}

// keptID is a hash of a tool and an id.
type keptID [16]byte

// newest is the newest event of a log: the steady time, in seconds since 1970, until which it is to be kept, and the
// low half of its sequence. A server whose clock is set forward drops it earlier. The zero value means that no event is
// known. In a message of the list, the time is bus time.
type newest struct{ expires, seq uint32 }

// keptMargin is the time before the expiry of an event from which on its absence proves nothing.
const keptMargin = 10 * time.Second

func newKept(times func() (bus, steady time.Time)) *keptIDs {
	k := &keptIDs{times: times}
	k.forget()
	return k
}

func keptIDOf(tool, id string) keptID {
	room := make([]byte, 0, 160) // on the stack
	room = append(append(append(room, tool...), 0), id...)
	sum := sha256.Sum256(room)
	return keptID(sum[:16])
}

// put stores the newest event of a log, unless a newer one is known: when it was stored and when it expires, in bus
// time.
func (k *keptIDs) put(id keptID, seq uint64, stored, expires time.Time) {
	now, steady := k.times()
	if early := stored.Sub(now); early > 0 { // the server's clock was set forward, and that was not noticed yet
		expires = expires.Add(-early)
	}
	k.add(keptRecord{id, newest{seconds(expires), uint32(seq)}}, now, steady)
}

// merge is put for a record of the list.
func (k *keptIDs) merge(r keptRecord) {
	now, steady := k.times()
	k.add(r, now, steady)
}

// add is merge at a time.
func (k *keptIDs) add(r keptRecord, now, steady time.Time) {
	r.expires = later(r.expires, steady.Sub(now))
	s := &k.shards[r.id[0]]
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, ok := s.ids[r.id]; ok && have.after(uint64(r.seq)) {
		return
	} else if have.seq == r.seq { // a list may have it from before a step
		r.expires = max(r.expires, have.expires)
	}
	s.ids[r.id] = r.newest
	if len(s.ids) >= s.full {
		s.sweep(seconds(steady))
	}
}

// now returns bus time.
func (k *keptIDs) now() time.Time {
	now, _ := k.times()
	return now
}

// set returns by how much the clock of the server was set.
func (k *keptIDs) set() time.Duration {
	now, steady := k.times()
	return now.Sub(steady)
}

// get returns the newest event of a log, or the zero value if none is known or it has nearly expired.
func (k *keptIDs) get(id keptID) newest {
	s := &k.shards[id[0]]
	s.mu.Lock()
	have, ok := s.ids[id]
	s.mu.Unlock()
	if !ok { // as for most calls
		return newest{}
	}
	if _, steady := k.times(); have.expires <= seconds(steady.Add(keptMargin)) {
		return newest{}
	}
	return have
}

// record returns the record of a log for the list, also if it has expired.
func (k *keptIDs) record(id keptID) (r keptRecord, ok bool) {
	s := &k.shards[id[0]]
	s.mu.Lock()
	defer s.mu.Unlock()
	r = keptRecord{id, s.ids[id]}
	ok = r.newest != newest{}
	r.expires = later(r.expires, k.set())
	return r, ok
}

// shardsOfSlot is the number of shards in a slot of the list.
const shardsOfSlot = len(keptIDs{}.shards) / keptSlots

// slot returns the slot of an id in the list.
func (id keptID) slot() int { return int(id[0]) / shardsOfSlot }

// slot returns the records of a slot of the list that have not expired.
func (k *keptIDs) slot(slot int) (all []keptRecord) {
	now, steady := k.times()
	for i := range shardsOfSlot {
		s := &k.shards[slot*shardsOfSlot+i]
		s.mu.Lock()
		for id, n := range s.ids {
			if n.expires > seconds(steady) {
				n.expires = later(n.expires, now.Sub(steady))
				all = append(all, keptRecord{id, n})
			}
		}
		s.mu.Unlock()
	}
	return all
}

// forget drops all ids.
func (k *keptIDs) forget() {
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		s.ids, s.full = map[keptID]newest{}, leastFull
		s.mu.Unlock()
	}
}

// len returns the number of ids, with expired ones that have not been dropped yet.
func (k *keptIDs) len() (n int) {
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		n += len(s.ids)
		s.mu.Unlock()
	}
	return n
}

const leastFull = 64

// sweep drops the ids that have expired, in steady time. A new map gives their memory back. Callers hold s.mu.
func (s *keptShard) sweep(now uint32) {
	live := 0
	for _, n := range s.ids {
		if n.expires > now {
			live++
		}
	}
	if live < len(s.ids) {
		ids := make(map[keptID]newest, live)
		for id, n := range s.ids {
			if n.expires > now {
				ids[id] = n
			}
		}
		s.ids = ids
	}
	s.full = live + live/4 + leastFull
}

// after reports whether n is a known event with a higher sequence than seq. Sequences may pass the end of their low
// half: the events of one log are close together.
func (n newest) after(seq uint64) bool { return n != newest{} && int32(n.seq-uint32(seq)) > 0 }

// seconds returns t in seconds since 1970, within the range of an uint32.
func seconds(t time.Time) uint32 { return uint32(min(max(t.Unix(), 0), 1<<32-1)) }

// later returns the time, in seconds since 1970, that is d after t.
func later(t uint32, d time.Duration) uint32 {
	return seconds(time.Unix(int64(t), 0).Add(d.Round(time.Second)))
}

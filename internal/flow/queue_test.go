package flow

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

func mustPut[T any](t *testing.T, q *Queue[T], from Sender, item T, bytes int64) *Job[T] {
	t.Helper()
	j, err := q.Put(from, item, bytes, 1)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// item is the n-th of its sender.
type item struct {
	from  Sender
	n     int
	bytes int64
}

// Senders that always have something waiting get equal shares: tenants of all, actors of their tenant's, to one turn
// and one job; and each gets what it sent in order.
func TestShares(t *testing.T) {
	const quantum, largest = 1000, 5000
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		hands := 1 + r.Int64N(4)
		q := NewQueue[item](QueueLimits{Quantum: quantum, All: Load{Slots: hands}})
		next := map[Sender]int{}
		sizes := map[Sender]int64{}
		send := func(from Sender) {
			i := item{from, next[from], 1 + r.Int64N(sizes[from])}
			next[from]++
			mustPut(t, q, from, i, i.bytes)
		}
		var tenants []string
		for n := range 1 + r.IntN(4) {
			tenants = append(tenants, fmt.Sprint("t", n))
			for a := range 1 + r.IntN(5) {
				from := Sender{tenants[n], fmt.Sprint("a", a)}
				sizes[from] = 1 + r.Int64N(largest)
				for range 20 {
					send(from)
				}
			}
		}
		took, got, of := map[Sender]int{}, map[Sender]int64{}, map[string]int64{}
		var inHand []*Job[item]
		for range 2000 {
			for j := q.Begin(); j != nil; j = q.Begin() {
				i := j.Item
				if i.n != took[i.from] {
					t.Fatalf("seed %d: %v is out of order, want %d", seed, i, took[i.from])
				}
				took[i.from]++
				got[i.from] += i.bytes
				of[i.from.Tenant] += i.bytes
				inHand = append(inHand, j)
				send(i.from)
			}
			if int64(len(inHand)) != hands {
				t.Fatalf("seed %d: %d in hand, want %d", seed, len(inHand), hands)
			}
			at := r.IntN(len(inHand))
			q.End(inHand[at])
			inHand = append(inHand[:at], inHand[at+1:]...)
		}
		const most = 2 * (quantum + largest)
		for a, bytes := range got {
			for b, others := range got {
				if a.Tenant == b.Tenant && bytes-others > most {
					t.Errorf("seed %d: %v got %d bytes, %v %d", seed, a, bytes, b, others)
				}
			}
		}
		for _, a := range tenants {
			for _, b := range tenants {
				if of[a]-of[b] > most {
					t.Errorf("seed %d: tenant %s got %d bytes, %s %d", seed, a, of[a], b, of[b])
				}
			}
		}
	}
}

// Whoever comes waits for no more than one turn of each of the others, however much they have waiting.
func TestNewcomer(t *testing.T) {
	const quantum, size = 1000, 100
	for others := range 5 {
		q := NewQueue[string](QueueLimits{Quantum: quantum})
		for range 1000 {
			for n := range others {
				mustPut(t, q, Sender{fmt.Sprint(n), "flood"}, "flood", size)
			}
		}
		for range 37 {
			q.Begin()
		}
		mustPut(t, q, Sender{"t", "newcomer"}, "mine", size)
		before := 0
		for q.Begin().Item != "mine" {
			before++
		}
		if most := others * quantum / size; before > most {
			t.Errorf("%d jobs of %d others went before, want %d at most", before, others, most)
		}
	}
}

// The bounds of an actor, of a tenant and of all hold, and say whose they are; nothing is left of what has ended.
func TestBounds(t *testing.T) {
	q := NewQueue[int](QueueLimits{
		Actor: Load{Items: 3, Bytes: 100}, Tenant: Load{Items: 4}, All: Load{Items: 8}, Quantum: 10, Least: 1,
	})
	put := func(tenant, actor string, bytes int64) string {
		fits := q.Fits(Sender{tenant, actor}, bytes)
		_, err := q.Put(Sender{tenant, actor}, 0, bytes, 1)
		if fits != (err == nil) {
			t.Errorf("%s of %s fits: %v, and was put: %v", actor, tenant, fits, err)
		}
		if full, ok := errors.AsType[*QueueFullError](err); ok {
			return full.Of
		}
		return ""
	}
	for i, c := range []struct {
		tenant, actor string
		bytes         int64
		want          string
	}{
		{"t", "a", 90, ""}, {"t", "a", 11, "actor"}, {"t", "a", 10, ""}, {"t", "a", 0, ""}, {"t", "a", 0, "actor"},
		{"t", "b", 1, ""}, {"t", "b", 1, "tenant"}, {"t", "c", 1, ""}, {"t", "c", 1, "tenant"},
		{"u", "a", 1, ""}, {"v", "a", 1, ""}, {"w", "a", 1, ""}, {"t", "d", 1, "dispatcher"},
	} {
		if got := put(c.tenant, c.actor, c.bytes); got != c.want {
			t.Errorf("%d: bound of %q, want %q", i, got, c.want)
		}
	}
	for j := q.Begin(); j != nil; j = q.Next(j) {
		continue
	}
	if q.all.holds != (Load{}) || q.waiting != 0 || len(q.all.ring) != 0 {
		t.Errorf("%+v is left", q.all.holds)
	}
}

// Made-up names leave nothing behind but a few.
func TestManyNames(t *testing.T) {
	q := NewQueue[int](QueueLimits{Quantum: 10})
	for n := range 100 * idle {
		mustPut(t, q, Sender{fmt.Sprint(n), "a"}, 0, 1)
		mustPut(t, q, Sender{"t", fmt.Sprint(n)}, 0, 1)
	}
	for j := q.Begin(); j != nil; j = q.Next(j) {
		continue
	}
	if tenants, actors := len(q.all.children), len(q.all.children["t"].children); tenants > idle+1 || actors > idle+1 {
		t.Errorf("%d tenants are known, and %d actors of one", tenants, actors)
	}
}

// An actor or tenant whose hands are full leaves the others theirs, also in the middle of its turn; what waits for
// others counts as in hand, and not as busy.
func TestHands(t *testing.T) {
	q := NewQueue[string](QueueLimits{
		Actor: Load{Slots: 4, Running: 2}, Tenant: Load{Slots: 6}, All: Load{Slots: 8, Running: 3}, Quantum: 1000,
	})
	for range 10 {
		mustPut(t, q, Sender{"t", "a"}, "a", 1)
		mustPut(t, q, Sender{"t", "b"}, "b", 1)
		mustPut(t, q, Sender{"u", "c"}, "c", 1)
	}
	var inHand []*Job[string]
	begin := func(waits bool, want string) {
		t.Helper()
		got := ""
		for j := q.Begin(); j != nil; j = q.Begin() {
			got += j.Item
			inHand = append(inHand, j)
			if waits {
				q.Waits(j)
				q.Waits(j)
			}
		}
		if got != want {
			t.Errorf("%q began, want %q", got, want)
		}
	}
	begin(false, "aab")
	for _, j := range inHand {
		q.Waits(j)
	}
	begin(true, "bbbcc")
	for _, j := range inHand {
		q.End(j)
	}
	inHand = nil
	if h := q.all.holds; h.Slots != 0 || h.Running != 0 {
		t.Errorf("%+v are held", h)
	}
}

// Where one job takes many hands, nobody overtakes it for good; and an actor that holds its share waits, without
// keeping those behind it.
func TestLargeJobs(t *testing.T) {
	q := NewQueue[string](QueueLimits{Share: 50, All: Load{Slots: 100}, Quantum: 10})
	put := func(actor, name string, n int64) *Job[string] {
		j, err := q.Put(Sender{"t", actor}, name, n, n)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	want := func(name string) *Job[string] {
		t.Helper()
		j := q.Begin()
		if j == nil && name != "" || j != nil && j.Item != name {
			t.Fatalf("%+v began, want %q", j, name)
		}
		return j
	}
	put("a", "first", 90)
	second := put("a", "second", 90)
	put("b", "small", 10)
	first := want("first") // more than its share, since it holds nothing else
	small := want("small")
	want("")
	if q.Drop(first) || !q.Drop(second) {
		t.Error("dropped what has begun, or not what has not")
	}
	put("a", "third", 20)
	want("")
	q.Shrink(first, 70)
	want("third")
	put("c", "all", 100)
	put("d", "tiny", 1)
	want("")
	q.End(first)
	want("")
	q.End(small)
	want("")
	q.Clear()
}

// A refusal says how long what is there takes to be worked off, as it goes of late, or for how long nothing has gone.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue[int](QueueLimits{Actor: Load{Items: 100}, Quantum: 10})
		from := Sender{"t", "a"}
		wait := func() time.Duration {
			_, err := q.Put(from, 0, 1, 1)
			full, ok := errors.AsType[*QueueFullError](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			return full.Wait
		}
		for range 100 {
			mustPut(t, q, from, 0, 1)
		}
		if got := wait(); got != MinWait {
			t.Errorf("%s when nothing is known", got)
		}
		for range 50 {
			<-time.After(20 * time.Millisecond) // in a bubble
			q.End(q.Begin())
			mustPut(t, q, from, 0, 1)
		}
		if got := wait(); got != 2*time.Second {
			t.Errorf("%s for 100 at 50 a second", got)
		}
		<-time.After(10 * time.Second)
		if got := wait(); got != 10*time.Second {
			t.Errorf("%s when nothing has gone for 10 s", got)
		}
		<-time.After(time.Hour)
		if got := wait(); got != MaxWait {
			t.Errorf("%s when nothing has gone for an hour", got)
		}
	})
}

// A closed queue takes nothing, and says when all that waited has begun or was dropped.
func TestClose(t *testing.T) {
	closed := func(taken <-chan struct{}) bool {
		select {
		case <-taken:
			return true
		default:
			return false
		}
	}
	q := NewQueue[int](QueueLimits{Quantum: 1})
	mustPut(t, q, Sender{"t", "a"}, 0, 1)
	mustPut(t, q, Sender{"t", "b"}, 0, 1)
	taken := q.Close()
	if _, err := q.Put(Sender{"t", "a"}, 0, 1, 1); !errors.Is(err, ErrClosed) || q.Fits(Sender{"u", "a"}, 1) {
		t.Errorf("put into a closed queue: %v", err)
	}
	j := q.Begin()
	if closed(taken) {
		t.Error("all is taken while one waits")
	}
	if n := q.Clear(); n != 1 || !closed(taken) || q.Begin() != nil {
		t.Errorf("%d dropped", n)
	}
	q.End(j)
	empty := NewQueue[int](QueueLimits{})
	if first := empty.Close(); !closed(first) || !closed(empty.Close()) {
		t.Error("nothing waits in an empty queue")
	}
}

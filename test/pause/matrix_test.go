package pause

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher"
	"github.com/seed-018f16cc/toolbus/internal/executor"
)

// points are where each part stops: before and after every write, reply and acknowledgement of its own.
// An executor that gets the work first has nothing to claim where calls may run twice; a taker
// gets it after another one has died, and claims first.
func points(part string, class call.EffectClass) []string {
	claim, rest := []string{"before-c", "after-c"},
		[]string{"in-tool", "after-effect", "before-o", "after-o", "before-reply", "before-ack"}
	switch part {
	case "dispatcher":
		return []string{"before-q", "after-q"}
	case "joiner":
		return []string{"before-j", "after-j"}
	case "guardian":
		return []string{"before-timeout", "after-o"}
	case "canceller":
		return []string{"before-o", "after-o"}
	}
	if part == "executor" && class != call.SideEffectful {
		return rest
	}
	return slices.Concat(claim, rest)
}

// parts are the parts that are stopped, for each tool: all of them for one tool that may run twice and one that may
// not, and only the executors for the other two.
var parts = map[string][]string{
	"chaos.read": {"executor"},
	"chaos.put":  {"dispatcher", "joiner", "guardian", "canceller", "executor", "taker"},
	"chaos.mail": {"executor", "taker"},
	"chaos.pay":  {"dispatcher", "joiner", "guardian", "canceller", "executor", "taker"},
}

// meanwhile is what others do while one is stopped.
var meanwhile = map[string]func(*scene){
	"nothing":   func(*scene) {},
	"redeliver": func(s *scene) { s.redeliver(false) },
	"take over": func(s *scene) { s.redeliver(true) },
	"deadline":  func(s *scene) { s.guardian() },
	"cancel":    func(s *scene) { s.w.cancel(s.second, callA) },
	"ask again": func(s *scene) {
		s.again(s.second, callA)
		s.again(s.second, callB)
	},
	"all": func(s *scene) {
		s.again(s.second, callB)
		s.redeliver(true)
		s.w.cancel(s.second, callA)
		s.guardian()
	},
}

// Callers of every scene.
var callA, callB, callC = uuid.NewString(), uuid.NewString(), uuid.NewString()

// scene is one play: who stops where, and what becomes of it.
type scene struct {
	w             *world
	stop          *stop
	first, second *dispatcher.Dispatcher
	e1, e2        *executor.Executor
	deliveries    int
}

// TestEveryPoint stops every part at every point of the protocol, for every class of tool, lets
// others do all that they may do meanwhile, and lets the stopped one go on, or die. Whatever
// happens, every promise is kept, and in the end every call has its outcome.
func TestEveryPoint(t *testing.T) {
	for _, spec := range effects.Specs() {
		if parts[spec.ID] == nil {
			continue // a streaming tool; chunks are the business of package streaming
		}
		b := newBase(t)
		for _, part := range parts[spec.ID] {
			t.Run(spec.ID+"/"+part, func(t *testing.T) {
				t.Parallel()
				for _, point := range points(part, spec.Class) {
					for name := range meanwhile {
						for _, dies := range []bool{false, true} {
							title := fmt.Sprintf("%s at %s, %s, dies %t", part, point, name, dies)
							t.Run(title, func(t *testing.T) { b.play(t, spec, part, point, name, dies) })
						}
					}
				}
			})
		}
	}
}

func (b *base) play(t *testing.T, spec effects.Spec, part, point, name string, dies bool) {
	w := b.world(t, spec.ID)
	s := &scene{w: w, stop: stopAt(point), second: w.dispatcher("d2", nil, nil), e2: w.executor("e2", nil, nil, nil)}
	stopped := s.begin(part)
	meanwhile[name](s)
	s.stop.dies <- dies
	w.end(stopped, part)
	s.finish(dies)
	w.judge()
}

// begin brings the part to its stop, and returns what is closed when it has ended after that.
func (s *scene) begin(part string) (stopped <-chan struct{}) {
	w := s.w
	switch part {
	case "dispatcher":
		s.first = w.dispatcher("d1", s.stop, nil)
		a := w.ask(s.first, callA, 1, time.Minute)
		w.wait(s.stop)
		return a.done
	case "joiner":
		s.first = w.dispatcher("d1", s.stop, nil)
		w.end(w.ask(s.second, callA, 1, time.Minute).done, "the second dispatcher")
		a := w.ask(s.first, callB, 1, time.Minute)
		w.wait(s.stop)
		return a.done
	}
	w.end(w.ask(s.second, callA, 1, time.Minute).done, "the second dispatcher")
	switch part {
	case "executor", "taker":
		s.deliveries = 1
		if part == "taker" { // the first executor has died before it could do anything
			s.deliveries = 2
		}
		s.e1 = w.executor("e1", s.stop, nil, nil)
		m, _ := w.message(s.deliveries)
		done := w.hand(s.e1, m)
		w.wait(s.stop)
		return done
	case "guardian":
		done := w.guard(s.stop, nil)
		w.wait(s.stop)
		return done
	}
	done := make(chan struct{})
	d := w.dispatcher("d3", s.stop, nil)
	go func() { // ends by itself, or dies at its stop
		defer close(done)
		w.cancel(d, callA)
	}()
	w.wait(s.stop)
	return done
}

// redeliver gives the work to the second executor; gone says that the first one is known to be.
func (s *scene) redeliver(gone bool) {
	if s.w.state().Empty() {
		return // nothing was admitted
	}
	if gone {
		s.w.dead("e1")
	}
	s.deliveries++
	s.w.work(s.e2, s.deliveries)
}

func (s *scene) guardian() {
	if last := s.w.state(); !last.Empty() && last.Last().Open() {
		s.w.end(s.w.guard(nil, nil), "the guardian")
	}
}

// again asks, and waits until the dispatcher is done with it.
func (s *scene) again(d *dispatcher.Dispatcher, callID string) {
	s.w.end(s.w.ask(d, callID, 1, time.Minute).done, "the dispatcher")
}

// finish lets all end well: what is open is run, or times out; everybody asks again, and then
// has an outcome. A third caller asks as long as that makes further attempts.
func (s *scene) finish(dies bool) {
	w := s.w
	if dies {
		w.dead("e1")
	}
	for _, id := range []string{callA, callB, callC} {
		s.again(s.second, id)
		s.drain()
		a := w.ask(s.second, id, 1, time.Minute)
		if r := w.answer(a); r == nil || !r.Provenance.Final {
			w.t.Errorf("call %s has no outcome in the end: %+v\n%s", id, r, w.history().Story(w.ref()))
		}
	}
}

// drain brings the open attempt to its end.
func (s *scene) drain() {
	for n := 0; s.w.state().Last().Open(); n++ {
		s.deliveries++
		if s.w.work(s.e2, s.deliveries) {
			continue
		}
		if n > 2 { // a claim of somebody who lives, and does nothing any more
			s.guardian()
		}
	}
}

// TestStoryIsTold: what a failure shows is complete.
func TestStoryIsTold(t *testing.T) {
	b := newBase(t)
	w := b.world(t, "chaos.pay")
	s := &scene{w: w, second: w.dispatcher("d2", nil, nil), e2: w.executor("e2", nil, nil, nil)}
	s.finish(false)
	h := w.history()
	if len(h.Asks) == 0 || len(h.Log) < 3 || len(h.Audit) < 2 || len(h.Effects) != 2 {
		t.Errorf("recorded: %d asks, %d events, %d records, %+v", len(h.Asks), len(h.Log), len(h.Audit), h.Effects)
	}
	w.judge()
	w.effects = append(w.effects, w.effects[1])
	w.convict("P3 effect")
}

package exchange

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// skies is a watcher whose requests are sent nowhere, and the times at which they are, from its beginning on.
type skies struct {
	*Calls
	err       error
	began     time.Time
	sends     []time.Duration
	connected chan struct{}
	ended     chan struct{}
}

// watching runs a watcher. What it sends gets through with err, unless that is errHangs.
func watching(err error) *skies {
	s := &skies{err: err, began: time.Now(), connected: make(chan struct{}), ended: make(chan struct{})}
	s.Calls = NewCalls()
	go func() {
		defer close(s.ended)
		Watch(s.Calls, s.connected)
	}()
	return s
}

var (
	errHangs = errors.New("the connection hangs")
	errFull  = errors.New("the connection takes no more")
)

// sentAgain are the times at which requests were sent again.
func (s *skies) sentAgain() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sends)
}

// call is one without functions, whose request is sent now. Its timeout is known only then.
func (s *skies) call(t *testing.T, timeout time.Duration) *request {
	t.Helper()
	return s.start(t, &request{
		Of: &Call{}, Answer: make(chan *envelope.Response, 1),
	}, timeout)
}

func (s *skies) start(t *testing.T, x *request, timeout time.Duration) *request {
	t.Helper()
	x.Send = func() {
		s.sends = append(s.sends, time.Since(s.began))
		if !errors.Is(s.err, errHangs) {
			go s.sent(x, s.err)
		}
	}
	s.Add(t.Context(), x.Of, time.Now().Add(4*time.Second))
	s.Due(x.Of, time.Now().Add(timeout))
	if !s.launch(x, time.Now()) {
		t.Fatal("not taken")
	}
	s.sent(x, nil)
	return x
}

// stop ends the watch, which must have no more calls.
func (s *skies) stop(t *testing.T) {
	t.Helper()
	if !s.End() {
		t.Error("there are open calls")
	}
	<-s.ended
}

// A request is sent again more and more rarely, and once more after the deadline. Then its caller is told that there
// is no answer, and, should that have been in vain, to wait no longer.
func TestWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := watching(nil)
		x := s.call(t, 6*time.Second)
		if r := <-x.Answer; r != nil || time.Since(s.began) != 6*time.Second+workerGrace {
			t.Errorf("after %s: %+v", time.Since(s.began), r)
		}
		ms := time.Millisecond
		want := []time.Duration{400 * ms, 1200 * ms, 2800 * ms, 4800 * ms, 6025 * ms, 6050 * ms}
		if again := s.sentAgain(); !slices.Equal(again, want) {
			t.Errorf("sent again at %v", again)
		}
		if m := <-x.Of.results; !m.GivenUp || time.Since(s.began) != 6*time.Second+callerGrace {
			t.Errorf("after %s: %+v", time.Since(s.began), m)
		}
		s.Remove(x.Of)
		s.stop(t)
	})
}

// Where answers take long, copies are not sent before they usually come. One that comes soon counts at once: the others
// were sent to a dispatcher that is dead.
func TestWatchedOverASlowNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := watching(nil)
		for _, c := range []struct{ answer, first time.Duration }{
			{600 * time.Millisecond, 400 * time.Millisecond}, {800 * time.Millisecond, 1200 * time.Millisecond},
			{time.Minute, 1250 * time.Millisecond}, {time.Millisecond, 1593750 * time.Microsecond},
			{time.Minute, 400 * time.Millisecond},
		} {
			s.began, s.sends = time.Now(), nil
			x := s.call(t, time.Hour)
			<-time.After(c.answer)
			s.accepted(x, &envelope.Accepted{}, time.Now())
			again := s.sentAgain()
			if c.answer < c.first && len(again) > 0 || c.answer > c.first && again[0] != c.first {
				t.Errorf("answered after %s: sent again at %v, want %s", c.answer, again, c.first)
			}
			s.Remove(x.Of)
		}
		s.stop(t)
	})
}

// Of a request one copy at most waits for the connection; what is accepted is asked for rarely, and what is over not
// at all.
func TestWatchedRarely(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		then func(*skies, *request)
		want int // copies in ten seconds
	}{
		"silence":  {nil, func(*skies, *request) {}, 6},
		"not sent": {errFull, func(*skies, *request) {}, 6},
		"hanging":  {errHangs, func(*skies, *request) {}, 1},
		"accepted": {nil, func(s *skies, x *request) { s.accepted(x, &envelope.Accepted{}, time.Now()) }, 4},
		"answered": {nil, func(s *skies, x *request) {
			s.answered(x,
				&envelope.Response{Status: envelope.Success})
		}, 0},
		"dropped":      {nil, func(s *skies, x *request) { s.drop(x.Of) }, 0},
		"reconnected":  {nil, func(s *skies, x *request) { s.connected <- struct{}{} }, 7},
		"disconnected": {nil, func(s *skies, x *request) { close(s.connected) }, 7},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := watching(c.err)
			x := s.call(t, time.Minute)
			c.then(s, x)
			<-time.After(9 * time.Second)
			if again := s.sentAgain(); len(again) != c.want {
				t.Errorf("%s: sent again at %v", name, again)
			}
			s.Remove(x.Of)
			s.stop(t)
		})
	}
}

// A call that joined an attempt with a later deadline is told at its own deadline that there is no answer: only the
// dispatcher that holds its request knows that deadline, and it may be frozen.
func TestJoinerAnswersItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := watching(nil)
		x := s.call(t, 6*time.Second)
		s.accepted(x, &envelope.Accepted{Joined: true, DeadlineUnixMS: time.Now().Add(time.Minute).UnixMilli()}, time.Now())
		if r := <-x.Answer; r != nil || time.Since(s.began) != 6*time.Second+workerGrace {
			t.Errorf("after %s: %+v", time.Since(s.began), r)
		}
		s.Remove(x.Of)
		s.stop(t)
	})
}

// Each call is told at its own time, and the watch ends with the last one.
func TestWatchedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := watching(nil)
		var all []*request
		for _, seconds := range []time.Duration{9, 3, 7, 1} {
			all = append(all, s.call(t, seconds*time.Second))
		}
		if s.End() {
			t.Error("nothing is open")
		}
		for i, after := range []time.Duration{3: 1, 1: 3, 2: 7, 0: 9} {
			go func() {
				<-all[i].Answer
				if took := time.Since(s.began); took != after*time.Second+workerGrace {
					t.Errorf("call %d after %s", i, took)
				}
				s.Remove(all[i].Of)
			}()
		}
		<-s.ended // with the last call
		if took := time.Since(s.began); took != 9*time.Second+workerGrace {
			t.Errorf("ended after %s", took)
		}
	})
}

// A caller that goes away is let go soon, whatever comes meanwhile.
func TestWatchedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := watching(nil)
		waits, accepted, answered := s.call(t, time.Minute), s.call(t, time.Minute), s.call(t, time.Minute)
		s.answered(answered, &envelope.Response{Status: envelope.Success})
		<-answered.Answer
		for _, x := range []*request{waits, accepted, answered} {
			began := time.Now()
			s.leave(x.Of, began)
			if x == accepted {
				s.accepted(x, &envelope.Accepted{}, time.Now())
			}
			if s.launch(x, time.Now()) {
				t.Error("sent for a call that is over")
			}
			if m := <-x.Of.results; !m.GivenUp || time.Since(began) != lastWord {
				t.Errorf("after %s: %+v", time.Since(began), m)
			}
			s.Remove(x.Of)
		}
		s.stop(t)
	})
}

// A caller that leaves when its deadline has passed already is let go no later than one that stays.
func TestLeftAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := watching(nil)
		x := s.call(t, time.Second)
		<-time.After(time.Second + callerGrace - time.Millisecond)
		s.leave(x.Of, time.Now())
		if m := <-x.Of.results; !m.GivenUp || time.Since(s.began) != time.Second+callerGrace {
			t.Errorf("after %s: %+v", time.Since(s.began), m)
		}
		s.Remove(x.Of)
		s.stop(t)
	})
}

// Whatever ends a call without an answer ends the wait for that, too: also a watcher that comes so late that the caller
// is given up at once.
func TestGivenUpEndsTheWait(t *testing.T) {
	for name, end := range map[string]func(*skies, *request){
		"removed":  func(s *skies, x *request) { s.Remove(x.Of) },
		"released": func(s *skies, x *request) { s.Release() },
		"left":     func(s *skies, x *request) { s.leave(x.Of, time.Now()) },
		"late":     func(s *skies, x *request) { s.look(x.Of.Deadline.Add(callerGrace)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := watching(nil)
				x := s.call(t, time.Minute)
				end(s, x)
				select {
				case r := <-x.Answer:
					if r != nil {
						t.Errorf("%+v", r)
					}
				case <-time.After(2 * lastWord):
					t.Error("the worker waits on")
				}
				s.Remove(x.Of)
				s.stop(t)
			})
		})
	}
}

// A refusal that stands only as long as another copy may be taken in is told when that copy could not be sent.
func TestRefusedWithoutCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := watching(errHangs)
		x := s.call(t, time.Minute)
		<-time.After(time.Second) // a copy waits for the connection
		refusal := &envelope.Response{Status: envelope.RetryableError, Error: envelope.NewError(envelope.CodeAuditLag, "")}
		if s.answered(x, refusal); len(x.Answer) > 0 {
			t.Error("told before it is known whether all copies were turned away")
		}
		if s.sent(x, errFull); <-x.Answer != refusal {
			t.Error("told another answer")
		}
		s.Remove(x.Of)
		s.stop(t)
	})
}

// Every copy of a request may meet another dispatcher. A refusal of one that another may contradict is the answer
// only where nothing was accepted, and where every copy was turned away; one that stands is at once.
func TestRefusedCopies(t *testing.T) {
	refusal := func(id string, code envelope.Code) *envelope.Response {
		return envelope.Failure("", envelope.NewError(code, ""),
			envelope.Provenance{Final: !code.Retryable(), AuditEventID: id}, envelope.Metrics{})
	}
	full, other := refusal("gate.1", envelope.CodeStoreFull), refusal("gate.2", envelope.CodeAuditLag)
	late, denied := refusal("gate.3", envelope.CodeTimeout), refusal("gate.4", envelope.CodeToolDisabled)
	unrecorded, damaged := refusal("", envelope.CodeAuditLag), refusal("gate.6", envelope.CodeLogDamaged)
	damaged.Provenance.Final = false
	unstarted := refusal("gate.5", envelope.CodeOpen)
	unstarted.Provenance.NotStarted = true
	outcome := &envelope.Response{Status: envelope.Success, Provenance: envelope.Provenance{Final: true, Attempt: 1}}
	inCount := func(n uint64) *envelope.Response {
		return &envelope.Response{Status: envelope.RetryableError,
			Provenance: envelope.Provenance{AuditEventID: "count", Counted: n}}
	}
	first, second := inCount(1), inCount(2)
	for name, c := range map[string]struct {
		accepted bool
		copies   int
		answers  []*envelope.Response
		want     *envelope.Response
	}{
		"one, turned away":        {copies: 1, answers: []*envelope.Response{full}, want: full},
		"one of two, turned away": {copies: 2, answers: []*envelope.Response{full, outcome}, want: outcome},
		"the same refusal twice":  {copies: 2, answers: []*envelope.Response{full, full, outcome}, want: outcome},
		"both, turned away":       {copies: 2, answers: []*envelope.Response{full, other}, want: other},
		"both, in one count":      {copies: 2, answers: []*envelope.Response{first, second}, want: second},
		"both, without a record": {copies: 2, answers: []*envelope.Response{unrecorded, unrecorded},
			want: unrecorded},
		"one of two, too late":                 {copies: 2, answers: []*envelope.Response{late, outcome}, want: outcome},
		"both, too late":                       {copies: 2, answers: []*envelope.Response{late, other}, want: other},
		"both, and one may have been admitted": {copies: 2, answers: []*envelope.Response{full, unstarted}, want: full},
		"both, and the other may have been":    {copies: 2, answers: []*envelope.Response{unstarted, full}, want: full},
		"one of two, denied":                   {copies: 2, answers: []*envelope.Response{denied}, want: denied},
		"one of two, of a damaged log":         {copies: 2, answers: []*envelope.Response{damaged}, want: damaged},
		"accepted, and a copy too late": {accepted: true, copies: 2, answers: []*envelope.Response{late, outcome},
			want: outcome},
		"accepted, and a copy is full": {accepted: true, copies: 1, answers: []*envelope.Response{full, outcome},
			want: outcome},
		"accepted, and a copy is denied": {accepted: true, copies: 2, answers: []*envelope.Response{denied, outcome},
			want: outcome},
	} {
		w := NewCalls()
		x := &request{Of: &Call{}, Answer: make(chan *envelope.Response, 1)}
		w.Add(t.Context(), x.Of, time.Now().Add(time.Minute))
		w.launch(x, time.Now())
		x.copies.sent = c.copies
		if c.accepted {
			w.accepted(x, &envelope.Accepted{Attempt: 1}, time.Now())
		}
		for _, r := range c.answers {
			w.answered(x, r)
		}
		select {
		case r := <-x.Answer:
			if r != c.want {
				t.Errorf("%s: %+v", name, r)
			}
		default:
			t.Errorf("%s: no answer", name)
		}
	}
}

// A token that is renewed may expire while a request is on its way. The request is sent again with the new one. If
// none comes by the deadline, the caller receives the refusal A-AUTH-EXPIRED.
func TestRefusedForAnExpiredToken(t *testing.T) {
	expired := envelope.Failure("", envelope.NewError(envelope.CodeExpired, ""),
		envelope.Provenance{AuditEventID: "gate.1"}, envelope.Metrics{})
	success := &envelope.Response{Status: envelope.Success, Provenance: envelope.Provenance{Final: true, Attempt: 1}}
	for name, c := range map[string]struct {
		renews  bool
		timeout time.Duration
		then    *envelope.Response // is the answer to a further copy
		want    *envelope.Response
		after   time.Duration
	}{
		"of a client that renews none": {timeout: time.Minute, want: expired},
		"renewed":                      {true, time.Minute, success, success, time.Second},
		"not renewed in time": {renews: true, timeout: 300 * time.Millisecond, want: expired,
			after: 300*time.Millisecond + afterDeadline},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := watching(nil)
			x := s.call(t, c.timeout)
			x.Renews = func() bool { return c.renews }
			s.answered(x, expired)
			if c.then != nil {
				<-time.After(time.Second)
				if len(s.sentAgain()) == 0 {
					t.Errorf("%s: not sent again", name)
				}
				s.answered(x, c.then)
			}
			if r := <-x.Answer; r != c.want || time.Since(s.began) != c.after {
				t.Errorf("%s: after %s: %+v", name, time.Since(s.began), r)
			}
			s.Remove(x.Of)
			s.stop(t)
		})
	}
}

// A refusal that is lost on its way does not keep its caller until the deadline: copies are refused as well. The effect
// is then unknown, since the copy without an answer may have been admitted. Where dispatchers lack capacity, that copy
// may wait for it, so the caller waits, too.
func TestLostRefusal(t *testing.T) {
	for name, c := range map[string]struct {
		code  envelope.Code
		lost  int // refusals, the first ones
		after time.Duration
	}{
		"none":                 {envelope.CodeToolUnknown, 0, 0},
		"one":                  {envelope.CodeToolUnknown, 1, 7200 * time.Millisecond},
		"two":                  {envelope.CodeUnavailable, 2, 18800 * time.Millisecond},
		"for lack of capacity": {envelope.CodeOpen, 1, 30*time.Second + workerGrace},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := watching(nil)
			x := s.call(t, 30*time.Second)
			var told *envelope.Response
			done := false
			for n := 0; !done; n++ {
				if n >= c.lost {
					s.answered(x, envelope.Failure("", envelope.NewError(c.code, "").WithEffect(envelope.EffectNone),
						envelope.Provenance{AuditEventID: fmt.Sprint("gate.", n), NotStarted: true}, envelope.Metrics{}))
				}
				for again := len(s.sentAgain()); !done && len(s.sentAgain()) == again; {
					select {
					case told = <-x.Answer:
						done = true
					case <-time.After(time.Millisecond):
					}
				}
			}
			if took := time.Since(s.began).Round(10 * time.Millisecond); took != c.after.Round(10*time.Millisecond) {
				t.Errorf("%s: after %s", name, took)
			}
			lost := c.lost > 0
			if capacity := c.code == envelope.CodeOpen; capacity != (told == nil) || told != nil && (told.Error.Code != c.code ||
				told.Provenance.NotStarted == lost || (told.Error.Details.Effect == envelope.EffectUnknown) != lost) {
				t.Errorf("%s: %+v", name, told)
			}
			s.Remove(x.Of)
			s.stop(t)
		})
	}
}

package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
)

const (
	// aloneRounds is how often all dispatchers but one are frozen.
	aloneRounds = 3
	// stallTime is how long the server is frozen.
	stallTime = 3 * time.Second
	// taking is the number of connections of a dispatcher for requests.
	taking = 2
)

// With all dispatchers but one frozen, logins and commands of an operator succeed in time, and the server asks the
// frozen ones no longer. When they thaw, and after the server was frozen, no dispatcher closes connections of others.
func TestAloneDispatcher(t *testing.T) {
	d, all := dispatchers(t, 3)
	o := newOperator(t, d)
	credentials, _ := d.Credential(auth.Principal{Actor: "operator://o", Role: auth.Operator})
	s := newServerEvents(t, d)
	for round := range aloneRounds {
		others(t, all, round%len(all), syscall.SIGSTOP)
		for _, c := range o.emergency(d, credentials, round) {
			within(t, emergencyTime, c)
		}
		for range taking * (len(all) - 1) {
			s.awaitKick()
		}
		others(t, all, round%len(all), syscall.SIGCONT)
		s.awaitBeats(len(all))
		o.awaitAnswers(len(all))
	}
	signal(t, d.Servers[0], syscall.SIGSTOP)
	for err := error(nil); !errors.Is(err, nats.ErrTimeout); { // it may answer until the signal has arrived
		if err = s.nc.FlushTimeout(stallTime); err != nil && !errors.Is(err, nats.ErrTimeout) {
			t.Fatal(err)
		}
	}
	signal(t, d.Servers[0], syscall.SIGCONT)
	s.awaitBeats(len(all))
	if n := len(s.kicks); n > 0 {
		t.Errorf("%d connections of dispatchers were closed that were not frozen, the first: %s", n, <-s.kicks)
	}
}

// others sends a signal to all processes but one.
func others(t *testing.T, all []*processtest.Process, but int, s syscall.Signal) {
	t.Helper()
	for i, p := range all {
		if i != but {
			signal(t, p, s)
		}
	}
}

// command is a login or a command of an operator in an emergency.
type command struct {
	name string
	do   func(context.Context) error
}

func (o *operator) emergency(d *processtest.Deployment, credentials string, round int) []command {
	run := fmt.Sprint("run-", round)
	q := envelope.LockRequest{LockTarget: envelope.LockTarget{All: true}, Reason: "r"}
	return []command{
		{"login", func(ctx context.Context) error {
			c, err := admin.Connect(ctx, d.URL, admin.Options{CredentialsFile: credentials})
			if err == nil {
				err = c.Close()
			}
			return err
		}},
		{"lock", func(ctx context.Context) error { _, err := o.Lock(ctx, q); return err }},
		{"revoke", func(ctx context.Context) error {
			_, err := o.RevokeTokens(ctx, envelope.RevokeRequest{Family: auth.NewID()})
			return err
		}},
		{"start a run", func(ctx context.Context) error {
			_, err := o.StartRun(ctx, envelope.RunStartRequest{ID: run, Actors: []string{"agent://a"}})
			return err
		}},
		{"close a run", func(ctx context.Context) error {
			_, err := o.ChangeRun(ctx, envelope.RunChangeRequest{ID: run, State: "closed"})
			return err
		}},
		{"push a policy", o.push},
		{"unlock", func(ctx context.Context) error { _, err := o.Unlock(ctx, q); return err }},
	}
}

// within complains unless a command succeeds in time.
func within(t *testing.T, limit time.Duration, c command) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 4*limit)
	defer cancel()
	err := c.do(ctx)
	if took := time.Since(began); err != nil || took > limit {
		t.Errorf("%s: %v, after %s", c.name, err, took)
	}
}

// serverEvents hears in the account SYS which connections are closed on request, and the heartbeats of dispatchers.
type serverEvents struct {
	t     *testing.T
	nc    *nats.Conn
	kicks chan string // names of the connections
	beats chan *nats.Msg
}

func newServerEvents(t *testing.T, d *processtest.Deployment) *serverEvents {
	t.Helper()
	public, err := d.Keys.System.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(d.URL, nats.Nkey(public, d.Keys.System.Sign))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s := &serverEvents{t, nc, make(chan string, 1000), make(chan *nats.Msg, 1000)}
	_, err = nc.Subscribe("$SYS.ACCOUNT.*.DISCONNECT", func(m *nats.Msg) {
		var e struct {
			Reason string                `json:"reason"`
			Client struct{ Name string } `json:"client"`
		}
		if json.Unmarshal(m.Data, &e) != nil || e.Reason == "Kicked" {
			s.kicks <- e.Client.Name
		}
	})
	if err == nil {
		_, err = nc.ChanSubscribe("toolbus.beat", s.beats)
	}
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// awaitKick waits until a connection is closed on request.
func (s *serverEvents) awaitKick() {
	s.t.Helper()
	select {
	case <-s.kicks:
	case <-time.After(emergencyTime):
		s.t.Fatal("no connection of a dispatcher that hangs was closed")
	}
}

// awaitBeats waits until each of some dispatchers has sent heartbeats for two seconds from now on, with all its
// connections.
func (s *serverEvents) awaitBeats(dispatchers int) {
	s.t.Helper()
	for len(s.beats) > 0 {
		<-s.beats
	}
	heard := map[string]int{}
	for complete, late := 0, time.After(4*emergencyTime); complete < dispatchers; {
		var b struct {
			ID          string
			Connections []any
		}
		select {
		case m := <-s.beats:
			if err := json.Unmarshal(m.Data, &b); err != nil {
				s.t.Fatal(err)
			}
		case <-late:
			s.t.Fatalf("heartbeats: %v", heard)
		}
		if len(b.Connections) == taking {
			if heard[b.ID]++; heard[b.ID] == 8 {
				complete++
			}
		}
	}
}

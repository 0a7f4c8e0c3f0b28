package deploy

import (
	"context"
	"flag"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
)

// frozenRounds is how often a dispatcher is frozen and thawed.
var frozenRounds = flag.Int("frozen", 20, "how often TestFrozenDispatcher freezes a dispatcher")

const (
	// emergencyTime is how long a command may take while one of two dispatchers is frozen.
	emergencyTime = 5 * time.Second
	// hurry is how long an operator waits who gives up at once.
	hurry = 100 * time.Millisecond
)

// dispatchers starts a server and n dispatchers with a policy that allows every call.
func dispatchers(t *testing.T, n int) (d *processtest.Deployment, all []*processtest.Process) {
	t.Helper()
	d = processtest.Prepare(t, processtest.Options{
		Programs: processtest.Build(t, "../..", "text_2esearch"), Profile: "single",
	})
	d.Serve(0)
	for range n {
		all = append(all, processtest.Start(t, "is serving", d.Toolbus(), "dispatcher", "--secrets-dir",
			filepath.Join(d.Dir, "keys"), "--server", d.URL, "--tools", d.Tools))
	}
	d.AllowAll()
	return d, all
}

// While one of two dispatchers is frozen, commands of operators succeed. When it thaws, the locks and the run are as
// the last command that succeeded has left them: no command before it, a copy of which waited there, takes effect.
func TestFrozenDispatcher(t *testing.T) {
	d, all := dispatchers(t, 2)
	o := newOperator(t, d)
	for round := range *frozenRounds {
		frozen := all[round%2].Cmd.Process
		if err := frozen.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		locked := round%4 < 2
		o.giveUp(!locked)
		o.command(locked, round%4 == 0)
		if err := frozen.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		o.awaitAnswers(len(all))
		o.verify(round, locked)
	}
}

// operator gives commands about all calls and about the run "r".
type operator struct {
	*admin.Client
	t     *testing.T
	inbox *rpc.Inbox

	set      admin.Policy // in force
	revision uint64       // of it
}

func newOperator(t *testing.T, d *processtest.Deployment) *operator {
	t.Helper()
	credentials, token := d.Credential(auth.Principal{Actor: "operator://o", Role: auth.Operator})
	c, err := admin.Connect(t.Context(), d.URL, admin.Options{CredentialsFile: credentials})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.StartRun(t.Context(), envelope.RunStartRequest{ID: "r", Actors: []string{"agent://a"}}); err != nil {
		t.Fatal(err)
	}
	l, err := link.Establish(t.Context(), link.Options{URL: d.URL, Credentials: credentials})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	inbox, err := rpc.OpenInbox(l.NC, "default", "operator://o", func() string { return token })
	if err != nil {
		t.Fatal(err)
	}
	history, err := c.PolicyHistory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set, err := c.Policy(t.Context(), history[0])
	if err != nil {
		t.Fatal(err)
	}
	return &operator{c, t, inbox, set, history[0].Revision}
}

// change returns the requests that lock all calls and pause the run, or the contrary.
func change(locked bool) (
	q envelope.LockRequest, op operation.Operation[envelope.LockRequest, envelope.LocksResponse], state string,
) {
	q = envelope.LockRequest{LockTarget: envelope.LockTarget{All: true}, Reason: "r"}
	if locked {
		return q, operation.Lock, "paused"
	}
	return q, operation.Unlock, "active"
}

// giveUp sends requests as the operator's client does, and waits for no answer.
func (o *operator) giveUp(locked bool) {
	q, op, state := change(locked)
	ctx, cancel := context.WithTimeout(o.t.Context(), emergencyTime)
	defer cancel()
	locks, _, err := operation.Locks.Ask(ctx, o.inbox, struct{}{})
	run, _, err2 := operation.RunShow.Ask(ctx, o.inbox, envelope.RunRequest{ID: "r"})
	if err != nil || err2 != nil {
		o.t.Fatal(err, err2)
	}
	q.Expect = locks.Revision
	brief, stop := context.WithTimeout(o.t.Context(), hurry)
	defer stop()
	_, _, _ = op.Ask(brief, o.inbox, q) // it may act or not
	brief, stop = context.WithTimeout(o.t.Context(), hurry)
	defer stop()
	r := envelope.RunChangeRequest{ID: "r", State: state, Expect: run.Revision}
	_, _, _ = operation.RunChange.Ask(brief, o.inbox, r)
}

// command gives commands, which must succeed in time: some, or all.
func (o *operator) command(locked, all bool) {
	q, _, state := change(locked)
	do := (*admin.Client).Unlock
	if locked {
		do = (*admin.Client).Lock
	}
	commands := map[string]func(context.Context) error{
		"lock": func(ctx context.Context) error { _, err := do(o.Client, ctx, q); return err },
		"run": func(ctx context.Context) error {
			_, err := o.ChangeRun(ctx, envelope.RunChangeRequest{ID: "r", State: state})
			return err
		},
	}
	if all {
		commands["revoke"] = func(ctx context.Context) error {
			_, err := o.RevokeTokens(ctx, envelope.RevokeRequest{Family: auth.NewID()})
			return err
		}
		commands["push"] = o.push
	}
	for name, command := range commands {
		began := time.Now()
		ctx, cancel := context.WithTimeout(o.t.Context(), 4*emergencyTime)
		err := command(ctx)
		cancel()
		if took := time.Since(began); err != nil || took > emergencyTime {
			o.t.Errorf("%s: %v, after %s", name, err, took)
		}
	}
}

// push puts the policy in force again.
func (o *operator) push(ctx context.Context) error {
	var err error
	o.revision, err = o.PushPolicy(ctx, o.set, o.revision, "again")
	return err
}

// awaitAnswers waits until all dispatchers answer: the one that thawed has then handled what waited for it.
func (o *operator) awaitAnswers(dispatchers int) {
	for answers := 0; answers < dispatchers; {
		answers = 0
		ctx, cancel := context.WithTimeout(o.t.Context(), emergencyTime)
		_ = o.inbox.AskAll(ctx, operation.Inventory.Name, time.Second, time.Second, func([]byte) {
			if answers++; answers == dispatchers {
				cancel()
			}
		})
		cancel()
		if o.t.Context().Err() != nil {
			o.t.Fatal("a dispatcher does not answer")
		}
	}
}

// verify compares the state with that which the commands of a round must have left.
func (o *operator) verify(round int, locked bool) {
	locks, err := o.Locks(o.t.Context())
	if err != nil || (len(locks) == 1) != locked {
		o.t.Errorf("round %d: %d locks, %v, want locked %t", round, len(locks), err, locked)
	}
	_, _, state := change(locked)
	if r, err := o.RunRecord(o.t.Context(), envelope.RunRequest{ID: "r"}); err != nil || r.State != state {
		o.t.Errorf("round %d: the run is %s, %v (%s), want %s", round, r.State, err, toolbus.CodeOf(err), state)
	}
}

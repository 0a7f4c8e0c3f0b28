package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

const (
	// allowed is how long the calls of a run are allowed before it is stopped.
	allowed = 1500 * time.Millisecond
	// barred is how long calls are made after their run was stopped or their tool was locked.
	barred = 2500 * time.Millisecond
	// namedEvery is the interval of the calls that name a run.
	namedEvery = 100 * time.Millisecond
)

// namedScene is the scene of these calls. They are not repeated at the end.
const namedScene = "named"

// govern does what operators do while calls are made. In each round it starts a run, stops it by the push of another
// policy or closes it, and locks a tool for a while. All policies allow the same.
func (r *run) govern(ctx context.Context) {
	r.governed.Pushed = []checker.Push{{Versions: r.cluster.policy.Versions(), At: r.driver.begun}}
	end := r.driver.begun.Add(r.Duration - allowed - 2*barred)
	for n := 1; time.Now().Before(end) && ctx.Err() == nil; n++ {
		r.round(ctx, n)
	}
}

func (r *run) round(ctx context.Context, n int) {
	id := fmt.Sprint("chaos-run-", r.Seed, "-", n)
	start := envelope.RunStartRequest{ID: id, Tenant: tenant, Actors: []string{actorOf(0)}}
	err := r.havoc.order(ctx, func(ctx context.Context, c *admin.Client) error {
		_, err := c.StartRun(ctx, start)
		return err
	})
	if err != nil {
		return // the run of the calls has ended
	}
	calling, stop := context.WithCancel(ctx)
	var named sync.WaitGroup
	named.Go(func() { r.driver.name(ctx, calling, id) })
	timer.Sleep(ctx, allowed)
	if n%2 == 0 {
		err = r.closeRun(ctx, id)
	} else {
		err = r.push(ctx, n)
	}
	if err == nil {
		r.governed.Stopped = append(r.governed.Stopped, checker.Stopped{Run: id, At: time.Now()})
	}
	timer.Sleep(ctx, barred)
	stop()
	named.Wait()
	r.lock(ctx, effects.Specs()[n%len(effects.Specs())].ID)
}

// push puts in force a policy that differs from the one before in a comment.
func (r *run) push(ctx context.Context, n int) error {
	set := r.cluster.policy
	set.Roles = slices.Concat(fmt.Appendf(nil, "# push %d\n", n), set.Roles)
	err := r.havoc.order(ctx, func(ctx context.Context, c *admin.Client) error { return pushed(ctx, c, set) })
	at := time.Now()
	if err != nil { // whether it is in force is not known
		at = at.Add(time.Hour)
	}
	r.governed.Pushed = append(r.governed.Pushed, checker.Push{Versions: set.Versions(), At: at})
	r.Tell(fmt.Sprintf("policy %d is pushed", n))
	r.havoc.count(fault{what: Push})
	return err
}

// pushed pushes a policy, unless it is in force.
func pushed(ctx context.Context, c *admin.Client, set policy.Documents) error {
	all, err := c.PolicyHistory(ctx)
	newest := append(all, envelope.PolicyVersion{})[0]
	if err != nil || newest.Versions == set.Versions() {
		return err
	}
	_, err = c.PushPolicy(ctx, admin.Policy(set), newest.Revision, "a policy of a chaos run")
	return err
}

func (r *run) closeRun(ctx context.Context, id string) error {
	r.Tell(id + " is closed")
	r.havoc.count(fault{what: CloseRun})
	return r.havoc.order(ctx, func(ctx context.Context, c *admin.Client) error {
		_, err := c.ChangeRun(ctx, envelope.RunChangeRequest{ID: id, Tenant: tenant, State: string(policy.RunClosed)})
		return err
	})
}

// lock locks a tool for a while.
func (r *run) lock(ctx context.Context, tool string) {
	q := envelope.LockRequest{LockTarget: envelope.LockTarget{Tool: tool}, Reason: "a lock of a chaos run"}
	err := r.havoc.order(ctx, func(ctx context.Context, c *admin.Client) error {
		_, err := c.Lock(ctx, q)
		return err
	})
	if err != nil {
		return // the run of the calls has ended, and the lock stays: no call is made any more
	}
	r.Tell(tool + " is locked")
	r.havoc.count(fault{what: Lock})
	locked := checker.Locked{Tool: tool, Span: checker.Span{From: time.Now()}}
	timer.Sleep(ctx, barred)
	locked.To = time.Now()
	r.governed.Locked = append(r.governed.Locked, locked)
	_ = r.havoc.order(context.WithoutCancel(ctx), func(ctx context.Context, c *admin.Client) error {
		_, err := c.Unlock(ctx, q)
		return err
	})
}

// name makes calls that name a run until calling ends.
func (d *driver) name(ctx, calling context.Context, run string) {
	var all sync.WaitGroup
	defer all.Wait()
	specs := effects.Specs()
	for n := 0; timer.Sleep(calling, namedEvery); n++ {
		p := play{
			scene: namedScene, spec: specs[n%len(specs)], key: fmt.Sprintf("named-%s-%06d", run, n), run: run,
			input: effects.Input{N: int64(n), WorkMS: 20},
		}
		all.Go(func() {
			by := 2 * (n % (callers / 2)) // one actor
			d.ask(ctx, &p, ask{caller: by, callID: uuid.NewString(), timeout: 3 * time.Second}, p.scene, false)
		})
	}
}

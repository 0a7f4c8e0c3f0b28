package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/wait"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/question"
	"github.com/seed-018f16cc/toolbus/record"
)

// CheckStatus says how one check of [Diagnose] went.
type CheckStatus string

// The results of a check.
const (
	CheckOK      CheckStatus = "ok"
	CheckWarning CheckStatus = "warn"
	CheckFailed  CheckStatus = "fail"
)

// Check is one finding about a deployment.
type Check struct {
	Name   string      `json:"name"`
	Status CheckStatus `json:"status"`
	Says   string      `json:"says"`
	Fix    string      `json:"fix,omitzero"`
}

// Diagnose checks a deployment from outside: server, topology, executors, dispatchers, clocks.
func Diagnose(ctx context.Context, url string, o toolbus.ClientOptions) []Check {
	nc, err := bus.Dial(url, "toolbus-doctor")
	if err != nil {
		return []Check{{"server", CheckFailed, err.Error(), bus.ConnectFix(err)}}
	}
	defer nc.Close()
	checks := []Check{{"server", CheckOK, fmt.Sprintf("nats-server %s at %s", nc.ConnectedServerVersion(),
		bus.Redacted(nc.ConnectedUrl())), ""}}
	js, err := jetstream.New(nc)
	if err != nil {
		return append(checks, Check{"jetstream", CheckFailed, err.Error(), "enable JetStream on the server"})
	}
	c, err := toolbus.NewClient(nc, o)
	if err != nil {
		return append(checks, Check{"dispatchers", CheckFailed, err.Error(), ""})
	}
	defer func() { _ = c.Close() }()
	inbox, err := bus.NewInbox(nc, c.Tenant, c.Actor)
	if err != nil {
		return append(checks, Check{"answers", CheckFailed, err.Error(), ""})
	}
	defer func() { _ = inbox.Close() }() // gone with the connection otherwise
	if no := inbox.Unheard(); no != nil {
		return append(checks, Check{"answers", CheckFailed, no.Message + ": " + no.Cause, no.Fix})
	}
	if bad := diagnoseJetStream(ctx, js); bad != nil {
		if checks = append(checks, *bad); bad.Fix != asOperator {
			return checks
		}
		return append(checks, diagnoseDispatchers(ctx, nil, c, inbox)...)
	}
	checks = append(checks, diagnoseStreams(ctx, js)...)
	checks = append(checks, diagnoseExecutors(ctx, js))
	return append(checks, diagnoseDispatchers(ctx, js, c, inbox)...)
}

// askTime bounds each question to dispatchers.
const askTime = 5 * time.Second

// asOperator is what to do where doctor itself may not look.
const asOperator = "run doctor as a user who may look at everything: docs/operations.md, \"Who may do what\", calls " +
	"it operator"

// diagnoseJetStream returns what is wrong with JetStream as a whole, or what keeps doctor from seeing it; nil is
// nothing.
func diagnoseJetStream(ctx context.Context, js jetstream.JetStream) *Check {
	err := bus.CheckLevel(ctx, js)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrPermissionViolation):
		return &Check{"jetstream", CheckFailed, "this user may not ask about JetStream, so streams and executors are not " +
			"looked at: " + err.Error(), asOperator}
	}
	return &Check{"jetstream", CheckFailed, err.Error(), ""} // which says what to do
}

func diagnoseStreams(ctx context.Context, js jetstream.JetStream) []Check {
	var checks []Check
	n, err := kv.Partitions(ctx, js)
	if err != nil {
		n = 1
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) { // that is said of the stream itself
		checks = append(checks, Check{"call log", CheckFailed, err.Error(),
			"change the stream back: until then no process starts"})
	}
	for _, want := range bus.Streams(bus.TopologyOptions{Partitions: n}) {
		have, err := js.Stream(ctx, want.Name)
		if err != nil {
			checks = append(checks, Check{want.Name, CheckFailed, err.Error(),
				"start a dispatcher or an executor: they create the topology"})
			continue
		}
		info := have.CachedInfo()
		c := Check{want.Name, CheckOK, fmt.Sprintf("%d messages, %d bytes", info.State.Msgs, info.State.Bytes), ""}
		if err := bus.Readable(info.Config); err != nil {
			c.Status, c.Says, c.Fix = CheckFailed, err.Error(), "see docs/compatibility.md: no process of this build starts here"
		} else if err := bus.Compatible(info.Config, want); err != nil {
			c.Status, c.Says, c.Fix = CheckFailed, strings.ReplaceAll(err.Error(), "\n", "; "),
				"change the stream back, or let Toolbus create it anew"
		} else if m := info.Config.MaxBytes; m > 0 && info.State.Bytes*100 > uint64(m)*85 {
			c.Status, c.Fix = CheckWarning, "the stream is over 85 % of max_bytes: raise it or shorten retention"
		}
		checks = append(checks, c)
	}
	return checks
}

// recordLate is from when on admission stops because the audit record is behind; see
// dispatcher.Options.
const recordLate = 10 * time.Second

// diagnoseRecord looks how far the audit record is behind the call log.
func diagnoseRecord(ctx context.Context, js jetstream.JetStream, now time.Time) Check {
	c := Check{"audit record", CheckOK, "up to date", ""}
	waiting, err := record.Unrecorded(ctx, js)
	switch {
	case err != nil:
		c.Status, c.Says, c.Fix = CheckFailed, err.Error(), "start a dispatcher: it creates the topology"
	case waiting != nil && now.Sub(waiting.Time) > recordLate && !movesOn(ctx, js, waiting):
		c.Status, c.Says = CheckFailed, fmt.Sprintf("an event of %s ago is not on record: nothing is admitted",
			now.Sub(waiting.Time).Round(time.Second))
		c.Fix = "see what the dispatchers log: is the disk of the server full, or the stream AUDIT changed?"
	}
	return c
}

// recordMoves is how long a record that moves on may stand still: after an absence of the server, or of all
// dispatchers, old events are put on record by and by, and nobody is refused for that.
const recordMoves = 3 * time.Second

// movesOn reports whether the event that is the oldest without a record gets one soon.
func movesOn(ctx context.Context, js jetstream.JetStream, waiting *jetstream.RawStreamMsg) bool {
	if !wait.For(ctx, recordMoves) {
		return false
	}
	oldest, err := record.Unrecorded(ctx, js)
	return err == nil && (oldest == nil || oldest.Subject != waiting.Subject || oldest.Sequence != waiting.Sequence)
}

// diagnosePools looks for tools that nobody could run, and for calls that wait for nobody.
func diagnosePools(ctx context.Context, js jetstream.JetStream, d question.Description) (checks []Check) {
	pools, err := kv.OpenPools(ctx, js, bus.DefaultLease)
	if err != nil {
		return nil // said of the stream already
	}
	idle := map[string][]string{}
	for pool := range d.Waiting {
		idle[pool] = nil // also of tools that this dispatcher does not have any more
	}
	for _, t := range d.Tools {
		idle[t.Pool] = append(idle[t.Pool], t.ToolID)
	}
	for _, pool := range slices.Sorted(maps.Keys(idle)) {
		if alive, err := pools.Alive(ctx, pool); err != nil || alive > 0 {
			continue
		}
		checks = append(checks, emptyPool(pool, idle[pool], d.Waiting[pool]))
	}
	return checks
}

// emptyPool is said of a pool that has tools, or calls that wait, and no executor.
func emptyPool(pool string, tools []string, waiting int) Check {
	c := Check{"pool " + pool, CheckWarning, "no executor is alive",
		"start one with `toolbus executor --pool " + pool + "`"}
	if len(tools) > 0 {
		c.Says += " for " + strings.Join(tools, ", ")
	}
	switch {
	case waiting == 1:
		c.Status, c.Says = CheckFailed, c.Says+", and 1 call waits"
	case waiting > 1:
		c.Status, c.Says = CheckFailed, fmt.Sprintf("%s, and %d calls wait", c.Says, waiting)
	}
	return c
}

func diagnoseExecutors(ctx context.Context, js jetstream.JetStream) Check {
	n := 0
	pools, err := kv.OpenPools(ctx, js, bus.DefaultLease)
	if err == nil {
		n, err = pools.AllAlive(ctx)
	}
	switch {
	case err != nil:
		return Check{"executors", CheckFailed, err.Error(), ""}
	case n == 0:
		return Check{"executors", CheckFailed, "no executor beats", "start one with `toolbus executor` or `toolbus dev`"}
	}
	return Check{"executors", CheckOK, fmt.Sprintf("%d alive", n), ""}
}

// diagnoseDispatchers looks at what dispatchers say, and, unless js is nil, at the record and the pools of their tools.
func diagnoseDispatchers(ctx context.Context, js jetstream.JetStream, c *toolbus.Client, inbox *bus.Inbox) []Check {
	d, err := c.Describe(ctx)
	switch {
	case errors.Is(err, bus.ErrNobody):
		return []Check{{"dispatchers", CheckFailed, err.Error(), "start one with `toolbus dispatcher` or `toolbus dev`"}}
	case errors.Is(err, nats.ErrPermissionViolation):
		no := inbox.NotAllowed(err)
		return []Check{{"dispatchers", CheckFailed, no.Message + ": " + no.Cause, no.Fix}}
	case err != nil:
		return []Check{{"dispatchers", CheckFailed, err.Error(),
			"one is there and does not answer: look at its log, or start another"}}
	}
	tools, offset := d.Tools, c.BusTime().Sub(c.Now())
	clock := Check{"clock", CheckOK, fmt.Sprintf("bus time is %s from here", offset.Round(time.Millisecond)), ""}
	if offset.Abs() > time.Second {
		clock.Status, clock.Fix = CheckWarning, "the clocks differ; Toolbus reasons in bus time, but logs will not line "+
			"up: check NTP"
	}
	checks := []Check{{"dispatchers", CheckOK, fmt.Sprintf("answering, %d tools", len(tools)), ""}, clock,
		diagnoseTools(ctx, inbox)}
	if d.SilentMS > 0 { // it could not write to its disk, and answers reads alone until it is started again
		silence := (time.Duration(d.SilentMS) * time.Millisecond).Round(time.Second)
		checks = append(checks, Check{"call log", CheckFailed,
			fmt.Sprintf("the server has taken no write for %s: nothing is admitted or decided", silence),
			"see what the server logs: is its disk full? Make room and restart it"})
	}
	if js == nil {
		return checks
	}
	return append(append(checks, diagnoseRecord(ctx, js, time.Now().Add(offset))), diagnosePools(ctx, js, d)...)
}

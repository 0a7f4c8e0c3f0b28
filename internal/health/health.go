package health

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Look checks the streams, the executors, the audit record and the pools. tools are those that a dispatcher has loaded,
// and waiting is the number of waiting calls in each pool.
func Look(ctx context.Context, js jetstream.JetStream, now time.Time, tools []envelope.ToolInfo,
	waiting map[string]int) []envelope.Check {
	checks := append(diagnoseStreams(ctx, js), diagnoseExecutors(ctx, js, tools)...)
	checks = append(checks, diagnoseRecord(ctx, js, now))
	return append(checks, diagnosePools(ctx, js, byPool(tools), waiting)...)
}

// byPool returns the ids of the tools of each pool.
func byPool(tools []envelope.ToolInfo) map[string][]string {
	pools := map[string][]string{}
	for _, t := range tools {
		pools[t.Pool] = append(pools[t.Pool], t.ToolID)
	}
	return pools
}

func diagnoseStreams(ctx context.Context, js jetstream.JetStream) []envelope.Check {
	var checks []envelope.Check
	n, err := bus.Partitions(ctx, js)
	if err != nil {
		n = 1
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) { // otherwise the check of the stream reports it
		checks = append(checks, envelope.Failed("call log", err.Error(),
			fixOf(err, "change the stream back: until then no process starts")))
	}
	for _, want := range bus.Streams(bus.TopologyOptions{Partitions: n}) {
		have, err := js.Stream(ctx, want.Name)
		if err != nil {
			checks = append(checks, unserved(want.Name, err))
			continue
		}
		info := have.CachedInfo()
		c := envelope.Well(want.Name, fmt.Sprintf("%d messages, %d bytes", info.State.Msgs, info.State.Bytes))
		if err := bus.Readable(info.Config); err != nil {
			c.Status, c.Says = envelope.CheckFailed, err.Error()
			c.Fix = "see docs/compatibility.md: no process of this build starts here"
		} else if err := bus.Compatible(info.Config, want); err != nil {
			c.Status, c.Says, c.Fix = envelope.CheckFailed, strings.ReplaceAll(err.Error(), "\n", "; "),
				"change the stream back, or let Toolbus create it anew"
		} else if m := info.Config.MaxBytes; m > 0 && info.State.Bytes*100 > uint64(m)*85 {
			c.Status, c.Fix = envelope.CheckWarning, "the stream is over 85 % of max_bytes: raise it or shorten retention"
		} else if want.Name == subjects.DeadStream && info.State.Msgs > 0 {
			c.Status, c.Fix = envelope.CheckWarning, "see which calls took five executors down with `toolbus dead list`"
		}
		checks = append(checks, c)
	}
	return checks
}

// fixOf returns the fix for an error about a stream: fix, unless the servers may have no leader for it.
func fixOf(err error, fix string) string {
	if bus.HasErrorCode(err, bus.CodeElecting) || errors.Is(err, context.DeadlineExceeded) {
		return "start all servers: a stream has a leader while more than half of those that hold it are up"
	}
	return fix
}

// Damaged returns a warning for each entry that was lost or cannot be read. found has what was found, by subject.
func Damaged(found map[string]string) (checks []envelope.Check) {
	for _, subject := range slices.Sorted(maps.Keys(found)) {
		checks = append(checks, envelope.Doubtful("entry "+subject, found[subject],
			"see docs/operations.md, damaged streams"))
	}
	return checks
}

// unserved returns the check of a stream that does not answer.
func unserved(stream string, err error) envelope.Check {
	fix := "start a dispatcher or an executor: they create the topology"
	if says := bus.Without(stream); says != "" && errors.Is(err, jetstream.ErrStreamNotFound) { // all else works
		return envelope.Doubtful(stream, err.Error()+": "+says,
			"start a dispatcher of this build, with room for the stream in the servers' storage")
	}
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		fix = "start all servers; if the files of the stream are damaged, see docs/operations.md, damaged streams"
	}
	return envelope.Failed(stream, err.Error(), fix)
}

// recordLate is the lag of the audit record from which on dispatchers refuse calls; see AuditLag in dispatcher.Options.
const recordLate = 10 * time.Second

// diagnoseRecord checks how far the audit record lags behind the call log, and how far it reaches back.
func diagnoseRecord(ctx context.Context, js jetstream.JetStream, now time.Time) envelope.Check {
	c := envelope.Well("audit record", "up to date")
	waiting, err := writer.FirstUnrecorded(ctx, js)
	switch {
	case err != nil:
		c.Status, c.Says = envelope.CheckFailed, err.Error()
		c.Fix = fixOf(err, "start a dispatcher: it creates the topology")
	case waiting != nil && now.Sub(waiting.Time) > recordLate && !movesOn(ctx, js, waiting):
		c.Status, c.Says = envelope.CheckFailed, fmt.Sprintf("an event of %s ago is not on record: nothing is admitted",
			now.Sub(waiting.Time).Round(time.Second))
		c.Fix = "see what the dispatchers log: is the disk of the server full, or the stream AUDIT changed?"
	default:
		return recordAge(ctx, js, now)
	}
	return c
}

// recordMoves is how long diagnoseRecord waits for progress. After an absence of the server or of all dispatchers, old
// events are recorded step by step, and no calls are refused for that.
const recordMoves = 3 * time.Second

// movesOn reports whether the oldest unrecorded event is recorded within recordMoves.
func movesOn(ctx context.Context, js jetstream.JetStream, waiting *jetstream.RawStreamMsg) bool {
	if !timer.Sleep(ctx, recordMoves) {
		return false
	}
	oldest, err := writer.FirstUnrecorded(ctx, js)
	return err == nil && (oldest == nil || oldest.Subject != waiting.Subject || oldest.Sequence != waiting.Sequence)
}

// diagnosePools checks for pools without a live executor that have tools or waiting calls.
func diagnosePools(ctx context.Context, js jetstream.JetStream, tools map[string][]string,
	waiting map[string]int) (checks []envelope.Check) {
	pools, err := heartbeat.OpenStore(ctx, js, bus.DefaultLease)
	if err != nil {
		return nil // the check of the stream reports it
	}
	needed := maps.Clone(tools)
	for pool := range waiting {
		needed[pool] = tools[pool] // also if this dispatcher no longer has tools of the pool
	}
	for _, pool := range slices.Sorted(maps.Keys(needed)) {
		if alive, err := pools.Alive(ctx, pool); err != nil || alive > 0 {
			continue
		}
		checks = append(checks, emptyPool(pool, tools[pool], waiting[pool]))
	}
	return checks
}

// startExecutor returns the fix if no executor of a pool is alive.
func startExecutor(pool string) string {
	return "start one with `toolbus executor " + pool + " --credentials FILE --tools DIR`, and --sync always if " +
		"dispatchers have it. `toolbus credentials issue --role executor --actor executor://1 " + pool +
		" --out FILE` makes the file"
}

// emptyPool returns the check of a pool without a live executor.
func emptyPool(pool string, tools []string, waiting int) envelope.Check {
	c := envelope.Doubtful("pool "+pool, "no executor is alive",
		startExecutor("--pool "+pool))
	if len(tools) > 0 {
		c.Says += " for " + strings.Join(tools, ", ")
	}
	switch {
	case waiting == 1:
		c.Status, c.Says = envelope.CheckFailed, c.Says+", and 1 call waits"
	case waiting > 1:
		c.Status, c.Says = envelope.CheckFailed, fmt.Sprintf("%s, and %d calls wait", c.Says, waiting)
	}
	return c
}

// diagnoseExecutors checks for live executors, for tools that they cannot run or of which they have other builds, and
// for those whose runs can reach other processes.
func diagnoseExecutors(ctx context.Context, js jetstream.JetStream, tools []envelope.ToolInfo) []envelope.Check {
	var alive []heartbeat.Heartbeat
	pools, err := heartbeat.OpenStore(ctx, js, bus.DefaultLease)
	if err == nil {
		alive, err = pools.AllAlive(ctx)
	}
	switch {
	case err != nil:
		return []envelope.Check{envelope.Failed("executors", err.Error(), "start a dispatcher: it creates the topology")}
	case len(alive) == 0:
		return []envelope.Check{envelope.Failed("executors", "no executor is alive", startExecutor("--pool POOL"))}
	}
	checks := []envelope.Check{envelope.Well("executors", fmt.Sprintf("%d alive", len(alive)))}
	return slices.Concat(checks, unbuilt(alive, tools), unrunnable(alive), unconfined(alive))
}

// whereabouts names an executor, and its machine and process if it reports them.
func whereabouts(b heartbeat.Heartbeat) string {
	name := subjects.Instance(b.Pool, b.Instance)
	if b.Load.Host != "" {
		name += fmt.Sprintf(" (%s, pid %d)", b.Load.Host, b.Load.PID)
	}
	return name
}

// unrunnable returns a failure for each tool of which no run could start at some executor.
func unrunnable(alive []heartbeat.Heartbeat) (checks []envelope.Check) {
	at, why := map[string][]string{}, map[string]string{} // by tool
	for _, b := range alive {
		for _, u := range b.Unrunnable {
			at[u.Tool] = append(at[u.Tool], whereabouts(b))
			why[u.Tool] = u.Why
		}
	}
	for _, id := range slices.Sorted(maps.Keys(at)) {
		slices.Sort(at[id])
		checks = append(checks, envelope.Failed("tool "+id, "cannot run at "+some(at[id])+": "+why[id],
			"mend the files of the tool, then restart the executor; `toolbus dev` takes them over by itself"))
	}
	return checks
}

// unconfined returns a warning for each kind of reach that the runs of executors have.
func unconfined(alive []heartbeat.Heartbeat) (checks []envelope.Check) {
	for _, kind := range []struct {
		reach     supervisor.Reach
		says, fix string
	}{
		{supervisor.ReachSignals, "a tool can signal processes of the same user, such as other runs and the executor",
			"the Landlock of their kernel does not scope signals: run these executors on Linux 6.12 or later"},
		{supervisor.ReachAll, "nothing proves that a tool cannot signal processes of the same user, or read the memory and " +
			"files of other runs",
			"they run as root or with CAP_SYS_ADMIN or CAP_PERFMON, or their kernel has no Landlock: run these executors as a " +
				"user without capabilities, on Linux 6.12 or later, with landlock in /sys/kernel/security/lsm"},
	} {
		var names []string
		for _, b := range alive {
			if b.RunsReach == kind.reach {
				names = append(names, whereabouts(b))
			}
		}
		if slices.Sort(names); len(names) > 0 {
			checks = append(checks, envelope.Doubtful("runs", kind.says+": "+some(names), kind.fix))
		}
	}
	return checks
}

// Placed checks the replicas of the streams, and whether direct gets are enabled, for a deployment with tokens.
func Placed(ctx context.Context, js jetstream.JetStream, want Want) []envelope.Check {
	n, err := bus.Partitions(ctx, js)
	if err != nil {
		return nil // the check of the call log reports it
	}
	profile, _ := deployment.ProfileNamed(want.Profile) // without a profile, nothing is expected
	var few, behind, unread []string
	for _, of := range bus.Streams(bus.TopologyOptions{Partitions: n, DirectRecord: true}) {
		stream, err := js.Stream(ctx, of.Name)
		if err != nil {
			continue // the check of the stream reports it
		}
		info := stream.CachedInfo()
		if info.Config.Replicas < profile.Servers {
			few = append(few, fmt.Sprintf("%s is on %d", of.Name, info.Config.Replicas))
		}
		if of.AllowDirect && !info.Config.AllowDirect {
			unread = append(unread, of.Name)
		}
		if c := info.Cluster; c != nil && slices.ContainsFunc(c.Replicas, lags) {
			behind = append(behind, of.Name)
		}
	}
	return []envelope.Check{replicas(profile, few, behind), readable(unread)}
}

func lags(p *jetstream.PeerInfo) bool { return !p.Current || p.Offline }

func replicas(profile deployment.Profile, few, behind []string) envelope.Check {
	switch {
	case len(few) > 0:
		return envelope.Failed("replicas", fmt.Sprintf("profile %s has %d servers, and %s", profile.Name, profile.Servers,
			some(few)), "start dispatchers with --replicas 3, and alter streams that are there: `nats stream edit NAME "+
			"--replicas 3`")
	case len(behind) > 0:
		return envelope.Doubtful("replicas", "a server is away, or has not caught up, with "+some(behind),
			"start it, and wait: until then the loss of another one stops everything")
	}
	return envelope.Well("replicas", "each stream is on as many servers as it should be")
}

func readable(unread []string) envelope.Check {
	if len(unread) > 0 {
		return envelope.Failed("direct reads", "auditors and callers cannot read "+some(unread)+": allow_direct is off",
			"start a dispatcher with --secrets-dir, or alter them: `nats stream edit NAME --allow-direct`")
	}
	return envelope.Well("direct reads", "on where tokens lead to streams, and nowhere else")
}

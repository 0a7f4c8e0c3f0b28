package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/admission"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/deadline"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Env is the environment of a command.
type Env struct {
	Stdout, Stderr io.Writer
	Terminal       bool     // Stderr is a terminal
	Environ        []string // variables as NAME=value; manifests may name some for tools
	URL            string   // TOOLBUS_URL
	Context        string   // TOOLBUS_CONTEXT
	Credentials    string   // TOOLBUS_CREDENTIALS
	Config         string   // folder of the user's configuration
}

// Surroundings returns the environment of this process.
func Surroundings() Env {
	return Env{
		Stdout: os.Stdout, Stderr: os.Stderr, Terminal: IsTerminal(os.Stderr),
		Environ: os.Environ(), URL: os.Getenv("TOOLBUS_URL"),
		Context: os.Getenv("TOOLBUS_CONTEXT"), Credentials: os.Getenv("TOOLBUS_CREDENTIALS"),
		Config: cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(os.Getenv("HOME"), ".config")),
	}
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Node holds the flags of all processes that serve a bus.
type Node struct {
	Tools   string // folder with the tools
	Default string // file with the defaults of tools, or ""
	Env     string // environment of the deployment: prod, staging or dev
	Fsync   bool   // the NATS server syncs every write
	Verbose bool   // log every event
	Signals SignalFlags

	keys       string // folder of the deployment's secrets
	insecure   bool   // authenticate nobody, without keys
	retention  bus.Retention
	replicas   int // 0: the default
	partitions int // 0: the existing number
	lease      time.Duration
	memory     int64 // MiB
	skew       time.Duration
	batch      int
	readyFile  string
}

// Flags adds the flags to cmd.
func (n *Node) Flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&n.Tools, "tools", "tools",
		"`DIR` with one folder for each tool, each with a tool.yaml")
	f.StringVar(&n.Default, "defaults", "",
		"`FILE` with defaults of tools by environment and tool id; docs/manifest.md shows one (default: those of the "+
			"manifests)")
	f.StringVar(&n.Env, "env", cmp.Or(n.Env, "prod"),
		"environment of the deployment, for --defaults: prod, staging or dev")
	f.DurationVar(&n.lease, "lease", bus.DefaultLease,
		"time without a sign of life after which other executors take over the calls of an executor; 100ms "+
			"or more")
	f.Int64Var(&n.memory, "payload-memory", flow.DefaultMemory>>20,
		"memory for inputs above 256 KiB, in `MiB`; calls wait for it, and an input that needs more is "+
			"refused")
	f.StringVar(&n.readyFile, "ready-file", "",
		"`FILE` that the process writes the bus URL to when it serves")
	n.Signals.flags(f)
	f.BoolVarP(&n.Verbose, "verbose", "v", false,
		"log every event, also those for finding faults")
	f.DurationVar(&n.skew, "clock-skew", 0, "shift the local clock (to test that skew does no harm)")
	_ = f.MarkHidden("clock-skew") // the flag exists
}

// ServerFlags adds the flags that describe the NATS server, for a process that does not start one.
func (n *Node) ServerFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	SyncFlag(cmd, &n.Fsync, "when the NATS servers write to disk. always: before they acknowledge, because their "+
		"configuration has sync_interval: always. Then calls of side-effectful tools are admitted")
	f.IntVar(&n.replicas, "replicas", 1,
		"NATS servers that store each stream; 3 in a cluster of three")
	f.IntVar(&n.partitions, "partitions", 0,
		"streams of the call log, 1 to 8. The first dispatcher fixes the number (default: keep it, or 1)")
	f.IntVar(&n.batch, "batch", 0, "with --sync always: how many events must wait to be written together")
	_ = f.MarkHidden("batch") // the flag exists
}

// KeysFlags adds the flags for the secrets of the deployment. One of the two is required: see [Node.CheckKeys].
func (n *Node) KeysFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&n.keys, "secrets-dir", "",
		"`DIR` with the secrets of the deployment, written by \"toolbus keys init\"; required, unless "+
			"--insecure-no-auth is given")
	f.BoolVar(&n.insecure, "insecure-no-auth", false,
		"serve without secrets and authenticate nobody: any client of the server may call any tool as any "+
			"actor")
}

// CheckKeys returns an [ErrUsage] unless the flags have either the secrets or permission to serve without them.
func (n *Node) CheckKeys() error {
	switch {
	case n.keys == "" && !n.insecure:
		return Usagef("--secrets-dir is missing: make the secrets with `toolbus keys init DIR`, and name DIR/keys. " +
			"With --insecure-no-auth instead, the dispatcher authenticates nobody")
	case n.keys != "" && n.insecure:
		return Usagef("--insecure-no-auth contradicts --secrets-dir: leave one of them out")
	}
	return nil
}

// RecordFlags adds the flags for the retention of audit records, for a process with a dispatcher.
func (n *Node) RecordFlags(cmd *cobra.Command) {
	f, r := cmd.Flags(), &n.retention
	f.DurationVar(&r.AuditAge, "audit-age", 0,
		"how long audit records of calls are kept (default: keep the setting of the stream; 720h for a new "+
			"one)")
	f.Int64Var(&r.AuditBytes, "audit-bytes", 0,
		"size of the audit records of calls, in bytes (default: keep the setting of the stream; 4 GiB for a "+
			"new one)")
	f.StringVar((*string)(&r.AuditFull), "audit-full", "",
		"what happens at that size. forget: the oldest records are deleted; refuse: calls are refused with "+
			"R-CAP-AUDIT (default: keep the setting of the stream; forget for a new one)")
	f.DurationVar(&r.DeniedAge, "denied-age", 0,
		"how long records of refusals are kept (default: keep the setting of the stream; 720h for a new one)")
	f.Int64Var(&r.DeniedBytes, "denied-bytes", 0,
		"size of the records of refusals, in bytes (default: keep the setting of the stream; 512 MiB for a "+
			"new one)")
}

const (
	maxReplicas = 5       // largest number that a NATS server allows
	maxMemory   = 1 << 20 // MiB; more is probably a mistake
)

// Check returns an [ErrUsage] if the flags are invalid.
func (n *Node) Check() error {
	switch {
	case n.Tools == "":
		return Usagef("--tools is empty: name a folder of tool manifests")
	case !slices.Contains(tool.Environments(), n.Env):
		return Usagef("--env is %q: use %s", n.Env, strings.Join(tool.Environments(), ", "))
	case n.lease < bus.MinLease:
		return Usagef("--lease is %s: use %s or more", n.lease, bus.MinLease)
	case n.memory < 1 || n.memory > maxMemory:
		return Usagef("--payload-memory is %d: use 1 to %d MiB", n.memory, maxMemory)
	case n.replicas < 0 || n.replicas > maxReplicas:
		return Usagef("--replicas is %d: use 1 to %d, and 3 in a cluster of three servers", n.replicas, maxReplicas)
	case n.partitions < 0 || n.partitions > subjects.MaxPartitions:
		return Usagef("--partitions is %d: use 1 to %d, or leave the flag out to keep the number of the call log",
			n.partitions, subjects.MaxPartitions)
	case n.retention.Check() != nil:
		return Usagef("%v", n.retention.Check())
	}
	return n.Signals.Check()
}

// Level returns the level from which on the process logs events.
func (n *Node) Level() slog.Level {
	if n.Verbose {
		return slog.LevelDebug
	}
	return n.Signals.Level
}

// Options returns the options of the connection, and the signals of the process, which the caller must end.
func (n *Node) Options(ctx context.Context, service string, env Env) (o toolbus.Options, signals *Signals, err error) {
	r := n.retention
	o = toolbus.Options{
		Name: service, Skew: n.skew, Logger: env.Logger(n.Level()), PayloadMemory: n.memory << 20, SecretsDir: n.keys,
		Topology: toolbus.Topology{
			Lease: n.lease, SyncAlways: n.Fsync, Batch: n.batch, Replicas: n.replicas, Partitions: n.partitions,
			Retention: toolbus.Retention{
				AuditAge: r.AuditAge, DeniedAge: r.DeniedAge, AuditBytes: r.AuditBytes, DeniedBytes: r.DeniedBytes,
				WhenFull: toolbus.FullPolicy(r.AuditFull),
			},
		},
	}
	signals, err = n.Signals.Open(ctx, service, env, &o)
	return o, signals, err
}

// Unready removes the ready file of an earlier process. Call it after all checks of the command line and before the
// process serves.
func (n *Node) Unready() error {
	if n.readyFile == "" {
		return nil
	}
	if err := os.Remove(n.readyFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("ready file: %w", err)
	}
	return nil
}

// WriteReady writes url, without secrets, to the ready file, atomically. If file is "", it does nothing.
func WriteReady(file, url string) error {
	if file == "" {
		return nil
	}
	tmp := file + ".tmp"
	err := os.WriteFile(tmp, []byte(bus.Redacted(url)+"\n"), 0o644)
	if err == nil {
		err = os.Rename(tmp, file)
	}
	if err != nil {
		return fmt.Errorf("ready file: %w", err)
	}
	return nil
}

// Pool holds the flags of a process with an executor.
type Pool struct {
	Name  string
	Slots int
}

// Flags adds the flags to cmd.
func (p *Pool) Flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.Name, "pool", tool.DefaultPool,
		"pool that the executor takes calls from; a manifest names the pool of its tool")
	cmd.Flags().IntVar(&p.Slots, "slots", toolbus.DefaultSlots,
		"calls that run at the same time")
}

// Check returns an [ErrUsage] if the flags are invalid.
func (p *Pool) Check() error {
	switch {
	case !tool.ValidPool(p.Name):
		return Usagef("--pool %q: use a name of at most 32 lower-case letters, digits and -, as manifests do",
			p.Name)
	case p.Slots < workqueue.MinSlots:
		return Usagef("--slots: use %d or more, not %d; to run fewer calls of a tool at once, set its concurrency_max",
			workqueue.MinSlots, p.Slots)
	}
	return nil
}

// worker returns the principal of the pool's executor on a bus of `toolbus dev`.
func (p *Pool) worker() auth.Principal {
	return auth.Principal{
		Tenant: toolbus.DefaultTenant, Actor: "executor://" + p.Name, Role: auth.Executor, Pool: p.Name,
	}
}

// Options returns the options of an executor. Manifests may pass variables of environ to tools.
func (p *Pool) Options(environ []string) toolbus.ExecutorOptions {
	host, _ := os.Hostname() // without a name, lists show none
	return toolbus.ExecutorOptions{Pool: p.Name, Slots: p.Slots, Host: host, Environ: environ}
}

// Admission holds the flags of a process with a dispatcher: the pool absence, the audit mode, and limits of open calls.
type Admission struct {
	options toolbus.DispatcherOptions
	audit   string
}

// Values of --audit.
const (
	auditLags   = "lag"
	auditStrict = "strict"
)

// Flags adds the flags to cmd.
func (a *Admission) Flags(cmd *cobra.Command) {
	f, o := cmd.Flags(), &a.options
	f.StringVar(&a.audit, "audit", auditLags,
		"lag: audit records are written up to some seconds after the call; strict: a call starts only when "+
			"its request is recorded, some milliseconds later")
	f.DurationVar(&o.PoolAbsence, "pool-absence", deadline.DefaultPoolAbsence,
		"time without a live executor in a pool after which its waiting calls end with S-TOOL-UNAVAILABLE. "+
			"Choose it longer than a restart of the executors")
	f.IntVar(&o.OpenPerActor, "open-per-actor", admission.DefaultOpenPerActor,
		"open calls of one actor with its sub-actors; further calls are refused with R-CAP-OPEN")
	f.IntVar(&o.OpenPerTenant, "open-per-tenant", admission.DefaultOpenPerTenant,
		"open calls of one tenant; further calls are refused with R-CAP-OPEN")
	f.IntVar(&o.OverflowAfter, "overflow-after", admission.DefaultOverflowAfter,
		"open calls of one actor with its sub-actors that are few: further calls wait in queues behind those of "+
			"others with few. Choose less than 7/8 of the slots of an executor")
	f.StringVar(&o.DefaultRole, "default-role", check.DefaultRole,
		"role of tokens without roles; without tokens, of calls that name none")
	f.StringVar(&o.DefaultLane, "default-lane", check.DefaultLane,
		"lane of calls that name none and whose token is not bound to one, unless exactly one other lane allows the tool")
}

// Check returns an [ErrUsage] if the flags are invalid. An executor may be silent for the lease, so the pool absence
// must not be shorter.
func (a *Admission) Check(n *Node) error {
	switch o := a.options; {
	case o.PoolAbsence < n.lease:
		return Usagef("--pool-absence is %s: use the lease or more, %s; an executor may be silent for that time",
			o.PoolAbsence, n.lease)
	case o.OpenPerActor < 1 || o.OpenPerTenant < 1:
		return Usagef("--open-per-actor is %d, --open-per-tenant %d: use 1 or more for both", o.OpenPerActor, o.OpenPerTenant)
	case o.OverflowAfter < 1:
		return Usagef("--overflow-after is %d: use 1 or more", o.OverflowAfter)
	case !auth.ValidRoleID(o.DefaultRole) || !auth.ValidRoleID(o.DefaultLane):
		return Usagef("--default-role is %.40q, --default-lane %.40q: use at most 128 letters, digits and . _ : / - and "+
			"begin with a letter or a digit", o.DefaultRole, o.DefaultLane)
	case a.audit != auditLags && a.audit != auditStrict:
		return Usagef("--audit: use %s or %s, not %q", auditLags, auditStrict, a.audit)
	}
	return nil
}

// Options returns the options of a dispatcher.
func (a *Admission) Options() toolbus.DispatcherOptions {
	o := a.options
	o.StrictAudit = a.audit == auditStrict
	return o
}

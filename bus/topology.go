package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Minimum requirements for a server.
const (
	minServer   = "2.15.2"
	minAPILevel = 4 // message TTL, atomic batches
)

// TopologyOptions configures the streams that [Ensure] creates. The zero value uses all defaults.
type TopologyOptions struct {
	Replicas     int           // servers that hold each stream; an existing stream may have more; default 1
	Partitions   int           // streams of the call log, which cannot change later; default: as it exists, else 1
	CallsBytes   int64         // maximum size of the call log, shared by its partitions; default 4 GiB
	Retention    Retention     // of the audit record
	ChunksAge    time.Duration // maximum age of chunks; default 15 minutes
	ChunksBytes  int64         // maximum size of the streams CHUNKS and DEAD, each; default 1 GiB
	PayloadAge   time.Duration // maximum age of large inputs and outputs; default 26 h, more than outcomes are kept
	PayloadBytes int64         // maximum size of large inputs and outputs; default 2 GiB
	// DirectRecord lets every replica of AUDIT, SURPLUS and DENIED answer reads (allow_direct). A replica may lag behind
	// the leader.
	DirectRecord bool
	Logger       *slog.Logger // logs that Ensure waits for a leader, or goes on without SURPLUS; nil discards
}

// DefaultLease is the default time that an executor may be silent before others take over its work.
const DefaultLease = 5 * time.Second

// MinLease is the shortest lease. An executor sends three heartbeats per lease. With a shorter lease, late heartbeats
// would make live executors look dead, and others would take over their work.
const MinLease = 100 * time.Millisecond

func (o TopologyOptions) withDefaults() TopologyOptions {
	const gib = 1 << 30
	o.Replicas = cmp.Or(o.Replicas, 1)
	o.CallsBytes = cmp.Or(o.CallsBytes, 4*gib)
	o.ChunksAge = cmp.Or(o.ChunksAge, 15*time.Minute)
	o.ChunksBytes = cmp.Or(o.ChunksBytes, gib)
	o.PayloadAge = cmp.Or(o.PayloadAge, 26*time.Hour)
	o.PayloadBytes = cmp.Or(o.PayloadBytes, 2*gib)
	return o
}

const month = 30 * 24 * time.Hour

// loginsAge is how long the entry of a login is kept after its last renewal.
const loginsAge = 12 * month

const dedup = 10 * time.Second // short: the server keeps ids in memory, and correctness rests on the compare-and-set

// callLog returns the configuration of one partition of the call log, with the reason of each unusual setting.
func callLog(p subjects.Partition, o TopologyOptions) jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name:               p.Stream(),
		Description:        "Toolbus call log: one log per idempotency id",
		Subjects:           []string{p.All()},
		Retention:          jetstream.LimitsPolicy,
		Discard:            jetstream.DiscardNew, // a full log refuses new events and loses no old ones
		AllowMsgTTL:        true,
		AllowDirect:        false, // reads must come from the leader
		DenyPurge:          true,
		AllowAtomicPublish: true, // events that wait for a sync are stored as one batch
		MaxBytes:           o.CallsBytes / int64(o.Partitions),
		// The NATS KV tools require a history limit. It must not be 64: Toolbus 0.1 requires that value, and must refuse
		// this stream. A dropped older event of a key is harmless, because the newer one contains it.
		MaxMsgsPerSubject: 32,
		MaxMsgSize:        -1,
	}
	if o.Partitions > 1 {
		c.Metadata = map[string]string{subjects.MetaPartitions: strconv.Itoa(o.Partitions)}
	}
	return c
}

// Streams returns the configurations of all streams of Toolbus, with the reason of each unusual setting. The partitions
// of the call log come first; if o.Partitions is 0, there are none.
func Streams(o TopologyOptions) []jetstream.StreamConfig {
	o = o.withDefaults()
	all := make([]jetstream.StreamConfig, 0, o.Partitions+11)
	for p := range o.Partitions {
		all = append(all, callLog(subjects.Partition(p), o))
	}
	all = append(all, []jetstream.StreamConfig{
		{
			Name:               subjects.AuditStream,
			Description:        "Toolbus audit record",
			Subjects:           []string{subjects.AuditAll},
			Discard:            jetstream.DiscardOld,
			DenyDelete:         true,
			DenyPurge:          true,
			AllowAtomicPublish: true,           // one compare-and-set stores the segments of all tenants of a flush
			AllowDirect:        o.DirectRecord, // a stale read does no harm: appending is a compare-and-set
			MaxAge:             month,
			MaxBytes:           4 << 30,
		},
		{
			Name:               subjects.DeniedStream,
			Description:        "Toolbus record of refusals", // separate, so that a flood of refusals evicts nothing else
			Subjects:           []string{subjects.DeniedAll},
			Discard:            jetstream.DiscardOld,
			DenyDelete:         true,
			DenyPurge:          true,
			AllowAtomicPublish: true,
			AllowDirect:        o.DirectRecord,
			MaxAge:             month,
			MaxBytes:           512 << 20,
		},
		{
			Name:        subjects.ChunksStream,
			Description: "Toolbus chunks of running calls",
			Subjects:    []string{subjects.ChunksAll},
			Discard:     jetstream.DiscardOld,
			AllowDirect: true, // chunks are immutable, so a stale read only misses
			MaxAge:      o.ChunksAge,
			MaxBytes:    o.ChunksBytes,
		},
		{
			Name:        subjects.DeadStream,
			Description: "Toolbus calls that could not be run",
			Subjects:    []string{subjects.DeadAll},
			Discard:     jetstream.DiscardNew,
			MaxAge:      month,
			MaxBytes:    o.ChunksBytes,
		},
		{
			Name:              subjects.PayloadsStream,
			Description:       "Toolbus payloads above the inline limit, by SHA-256",
			Subjects:          []string{subjects.PayloadsAll},
			Discard:           jetstream.DiscardNew,
			MaxMsgsPerSubject: 1, // putting the same content again renews it
			AllowDirect:       true,
			MaxAge:            o.PayloadAge,
			MaxBytes:          o.PayloadBytes,
		},
		{
			Name:              subjects.ControlStream,
			Description:       "Toolbus keys of tokens, and revocations",
			Subjects:          []string{subjects.ControlAll},
			Discard:           jetstream.DiscardNew, // revocations must not be evicted
			AllowMsgTTL:       true,
			DenyPurge:         true,
			MaxMsgsPerSubject: 1,
			MaxBytes:          64 << 20,
		},
		{
			Name:              subjects.CopiesStream,
			Description:       "Toolbus copies of the locks and of the policy in force",
			Subjects:          []string{subjects.Copy(">")},
			Discard:           jetstream.DiscardNew,
			AllowMsgTTL:       true,
			AllowDirect:       false, // the leader says what an entry must be
			DenyPurge:         true,
			MaxMsgsPerSubject: 32, // a new copy must not replace a damaged one: the server would not acknowledge it
			MaxBytes:          64 << 20,
		},
		{
			Name:              subjects.PolicyStream,
			Description:       "Toolbus policy sets, and the entry that names the one in force",
			Subjects:          []string{subjects.PolicyAll},
			Discard:           jetstream.DiscardNew,
			AllowRollup:       true,  // documents that no version names are purged
			AllowDirect:       false, // the leader says which set is in force
			MaxMsgsPerSubject: 64,    // versions of the policy
			MaxBytes:          256 << 20,
		},
		{
			Name:              subjects.RunsStream,
			Description:       "Toolbus run records",
			Subjects:          []string{subjects.RunsAll},
			Discard:           jetstream.DiscardNew, // a new run must not evict another
			AllowMsgTTL:       true,
			AllowDirect:       false, // the leader says in which state a run is
			DenyPurge:         true,
			MaxMsgsPerSubject: 1,
			MaxBytes:          256 << 20,
		},
		{
			Name:              subjects.LoginsStream,
			Description:       "Toolbus sealed logins at MCP servers",
			Subjects:          []string{subjects.LoginsAll},
			Discard:           jetstream.DiscardNew, // a lost entry is a lost refresh token
			AllowDirect:       false,                // the leader says which token is the newest
			DenyPurge:         true,
			MaxMsgsPerSubject: 1,
			MaxAge:            loginsAge,
			MaxBytes:          32 << 20,
		},
		{
			Name:              subjects.PoolsStream,
			Description:       "Toolbus executor heartbeats",
			Subjects:          []string{subjects.PoolsAll},
			Discard:           jetstream.DiscardOld, // a heartbeat always finds room, even in a full bucket
			AllowMsgTTL:       true,
			MaxMsgsPerSubject: 1,
			MaxAge:            24 * time.Hour, // for messages other than heartbeats, which have a TTL
			MaxBytes:          64 << 20,
			Duplicates:        time.Second,
		},
		{
			Name:              subjects.SurplusStream,
			Description:       "Toolbus audit record of tenants above their share of AUDIT",
			Subjects:          []string{subjects.SurplusAll},
			Discard:           jetstream.DiscardOld,
			DenyDelete:        true,
			DenyPurge:         true,
			AllowDirect:       o.DirectRecord,
			MaxMsgsPerSubject: 1024, // so that one tenant has at most half: a segment has up to 512 KiB
			MaxAge:            month,
			MaxBytes:          1 << 30,
		},
		{
			Name:              subjects.KeptStream,
			Description:       "Toolbus list of the calls in the call log",
			Subjects:          []string{subjects.KeptAll},
			Discard:           jetstream.DiscardNew, // a list without its oldest messages is worthless
			AllowDirect:       false,                // the leader says what the newest message is
			MaxMsgsPerSubject: 1,
			MaxBytes:          256 << 20,
		},
	}...)
	for i := range all {
		c := &all[i]
		o.Retention.apply(c)
		c.Storage = jetstream.FileStorage // a restart of the server would empty a stream in memory
		c.Replicas, c.Duplicates = o.Replicas, cmp.Or(c.Duplicates, dedup)
		if c.Metadata == nil {
			c.Metadata = map[string]string{}
		}
		c.Metadata[subjects.MetaForm] = strconv.Itoa(format.Streams.Current())
	}
	return all
}

// Readable returns an error if a build with another format of streams made the stream. It returns nil for a stream that
// Toolbus did not make: [Compatible] finds its settings.
func Readable(have jetstream.StreamConfig) error {
	if !strings.HasPrefix(have.Description, ours) {
		return nil
	}
	n, _ := strconv.Atoi(have.Metadata[subjects.MetaForm]) // Toolbus 0.1 wrote no number
	if err := format.Streams.Check(n); err != nil {
		return fmt.Errorf("stream %s: %w", have.Name, err)
	}
	return nil
}

// ours is the prefix of the descriptions of all streams of Toolbus.
const ours = "Toolbus "

// Ensure creates the streams that do not exist, and checks the others. It returns an error that names each setting with
// which Toolbus cannot work; sizes may differ. It updates the retention, and settings of earlier versions. While the
// servers have no leader, it waits up to 30 s. If they cannot reserve a stream of [Without], it goes on without it.
// Several processes may call it at the same time.
func Ensure(ctx context.Context, js jetstream.JetStream, o TopologyOptions) error {
	o = o.withDefaults()
	begun, told := time.Now(), false
	return timer.Backoff{Pause: electionPause}.Until(ctx, func(ctx context.Context) (done bool, err error) {
		if err = ensure(ctx, js, o); passing(err) {
			err = cmp.Or(denied(js.Conn()), err)
		}
		done = !passing(err) || time.Since(begun) > electionTime
		if !done && !told {
			o.warn("waiting for the servers to have a leader", err)
			told = true
		}
		return done, err
	})
}

func ensure(ctx context.Context, js jetstream.JetStream, o TopologyOptions) error {
	if err := CheckLevel(ctx, js); err != nil {
		return err
	}
	gone, err := lost(ctx, js)
	if err != nil {
		return err
	}
	if o, err = o.partitioned(ctx, js); err != nil {
		return err
	}
	defer o.warnOfLost(gone)
	for _, want := range Streams(o)[1:] {
		err := ensureStream(ctx, js, want, o.Retention)
		if HasErrorCode(err, codeStorage, codeAccountStorage, codePeers, codeStreams) {
			if says := Without(want.Name); says != "" { // go on as on a bus of an older build
				o.warn(says, err)
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Without says what a bus cannot do that goes on without a stream, because its servers cannot reserve it. It returns ""
// for a stream that a bus needs.
func Without(stream string) string {
	switch stream {
	case subjects.SurplusStream:
		return "records of tenants above their share go to AUDIT"
	case subjects.KeptStream:
		return "after a start dispatchers do not know which calls the log has lost"
	case subjects.LoginsStream:
		return "executors cannot renew the tokens of logins at MCP servers"
	}
	return ""
}

func (o TopologyOptions) warn(says string, err error) {
	if o.Logger != nil {
		o.Logger.Warn(says, "err", err)
	}
}

// losses says what a bus loses with a stream. Every build that this one works with makes these streams.
func losses() map[string]string {
	return map[string]string{
		subjects.Partition(0).Stream(): "which calls have run: a call that is asked for again may run again",
		subjects.ControlStream: "the list of issued credentials; keys, revocations and safety locks are restored from " +
			"their copies, if a build that keeps copies has run here before",
		subjects.PolicyStream: "the policy: no call is admitted before `toolbus policy push`",
		subjects.RunsStream:   "all runs: their calls are refused until they are started again",
		subjects.AuditStream:  "the audit record of calls",
	}
}

// makingTime is the age from which on a stream does not belong to a bus that is only just being made.
const makingTime = time.Minute

// lost returns which streams of losses a bus no longer has. A new bus has lost none, also while another process makes
// its streams: that makes them in their order, and lost reads them in the reverse order. So a stream that is not there
// was lost if one after it was there, or one that is older than makingTime.
func lost(ctx context.Context, js jetstream.JetStream) (names []string, err error) {
	var missing []string
	have, old := false, false
	for _, want := range slices.Backward(Streams(TopologyOptions{Partitions: 1})) {
		s, err := js.Stream(ctx, want.Name)
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, fmt.Errorf("stream %s: %w", want.Name, MissingStreamError(err))
		}
		if err == nil {
			info := s.CachedInfo()
			have, old = true, old || info.TimeStamp.Sub(info.Created) > makingTime
			continue
		}
		if losses()[want.Name] == "" {
			continue
		}
		if missing = append(missing, want.Name); have {
			names = append(names, want.Name)
		}
	}
	if old {
		names = missing
	}
	return names, nil
}

// warnOfLost logs which streams of an older bus were created again.
func (o TopologyOptions) warnOfLost(names []string) {
	if o.Logger == nil {
		return
	}
	for _, name := range names {
		o.Logger.Warn("a stream was deleted, or its files were damaged: it was created again without its content",
			"stream", name, "lost", losses()[name])
	}
}

// partitioned creates the first partition of the call log if it does not exist, and returns o with the number of
// partitions. The process that creates the first partition fixes the number for all.
func (o TopologyOptions) partitioned(ctx context.Context, js jetstream.JetStream) (TopologyOptions, error) {
	want := o.Partitions
	if want < 0 || want > subjects.MaxPartitions {
		return o, fmt.Errorf("the call log cannot have %d partitions: it is 1 to %d", want, subjects.MaxPartitions)
	}
	before, err := PartitionsBefore(ctx, js)
	if err != nil {
		return o, err
	}
	o.Partitions = cmp.Or(want, before)
	if err := ensureStream(ctx, js, Streams(o)[0], o.Retention); err != nil {
		return o, err
	}
	have, err := Partitions(ctx, js)
	if err != nil {
		return o, err
	}
	if want != 0 && want != have {
		return o, fmt.Errorf("the call log has %d partitions, not %d: that is fixed when it is made; leave it out, or use "+
			"a server, or an account, without a call log", have, want)
	}
	o.Partitions = have
	return o, nil
}

// refusal adds a hint to err, with which the server refused to create a stream.
func refusal(err error, want jetstream.StreamConfig) error {
	do := ""
	switch ErrorCode(err) {
	case codeStorage, codeAccountStorage:
		do = fmt.Sprintf(": the server will not reserve %d MiB more; raise max_file_store of its jetstream block, "+
			"which is 75 %% of the free disk by default, or max_file of the account, or make room", want.MaxBytes>>20)
	case codePeers:
		do = fmt.Sprintf(": it takes %d servers that are there and can reserve %d MiB each; start them, or raise "+
			"max_file_store of their jetstream blocks",
			want.Replicas, want.MaxBytes>>20)
	case codeStreams:
		do = fmt.Sprintf(": Toolbus has %d, and one more for each partition after the first; raise max_streams of the "+
			"account", len(Streams(TopologyOptions{Partitions: 1})))
	case CodeOverlap:
		do = fmt.Sprintf(": it needs %s for itself; give Toolbus an account of its own, or delete the stream that has them",
			strings.Join(want.Subjects, ", "))
	}
	return fmt.Errorf("stream %s: %w%s", want.Name, err, do)
}

// A server that has not answered a request to create a stream within createAnswer is asked again, createTries times in
// all. A server of a newly formed cluster may create the stream without an answer.
const (
	createAnswer = 2 * time.Second
	createTries  = 3
)

// create creates a stream. If the same stream exists, it returns nil.
func create(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	tries := 0
	return timer.Backoff{Try: createAnswer}.Until(ctx, func(ctx context.Context) (bool, error) {
		tries++
		_, err := js.CreateStream(ctx, want)
		return tries == createTries || !errors.Is(err, context.DeadlineExceeded), err
	})
}

func ensureStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig, r Retention) error {
	refused := create(ctx, js, want)
	if refused == nil {
		return nil
	}
	// The stream may exist whatever the error: a server without free storage refuses the request before it looks for the
	// stream.
	have, err := js.Stream(ctx, want.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return refusal(refused, want)
	case err != nil:
		return fmt.Errorf("stream %s: %w", want.Name, MissingStreamError(err))
	}
	found := have.CachedInfo().Config
	if err := Readable(found); err != nil {
		return err
	}
	changed := r.apply(&found)
	if evidence(want) && want.AllowDirect && !found.AllowDirect { // created without tokens
		found.AllowDirect, changed = true, true
	}
	if err := Compatible(found, want); err != nil || !changed { // never update a stream that Toolbus did not make
		return err
	}
	if _, err := js.UpdateStream(ctx, found); err != nil {
		return fmt.Errorf("stream %s: %w", want.Name, err)
	}
	return nil
}

// evidence reports whether a stream belongs to the audit record. Its allow_direct may have either value.
func evidence(c jetstream.StreamConfig) bool {
	return c.Name == subjects.AuditStream || c.Name == subjects.SurplusStream || c.Name == subjects.DeniedStream
}

// Compatible returns an error that names each setting of an existing stream with which Toolbus cannot keep its
// promises. It returns nil if there is no such setting.
func Compatible(have, want jetstream.StreamConfig) error {
	// In a stream whose messages have their own TTL, max_age would end them too early. Without max_age, max_msgs would
	// make the stream full before its bytes are used.
	age, msgs := time.Duration(0), int64(-1)
	if want.MaxAge == 0 {
		age, msgs = have.MaxAge, have.MaxMsgs
	}
	size := int32(-1)
	if have.MaxMsgSize > 0 && have.MaxMsgSize < minPayload {
		size = have.MaxMsgSize
	}
	discard := have.Discard
	if want.Name == subjects.AuditStream { // the operator chooses its FullPolicy
		discard = want.Discard
	}
	direct := have.AllowDirect
	if evidence(want) {
		direct = want.AllowDirect
	}
	var bad []error
	for _, c := range []struct {
		setting    string
		have, want any
	}{
		{"subjects", fmt.Sprint(have.Subjects), fmt.Sprint(want.Subjects)},
		{"retention", have.Retention, want.Retention},
		{"discard", discard, want.Discard},
		{"allow_msg_ttl", have.AllowMsgTTL, want.AllowMsgTTL},
		{"subject_delete_marker_ttl", have.SubjectDeleteMarkerTTL, want.SubjectDeleteMarkerTTL},
		{"allow_direct", direct, want.AllowDirect},
		{"deny_purge", have.DenyPurge, want.DenyPurge},
		{"deny_delete", have.DenyDelete, want.DenyDelete},
		{"allow_atomic", have.AllowAtomicPublish, want.AllowAtomicPublish},
		{"num_replicas", min(have.Replicas, want.Replicas), want.Replicas},
		{"max_msgs_per_subject", max(have.MaxMsgsPerSubject, 0), max(want.MaxMsgsPerSubject, 0)}, // 0 is stored as -1
		{"discard_new_per_subject", have.DiscardNewPerSubject, want.DiscardNewPerSubject},
		{"storage", have.Storage, want.Storage},
		{"persist_mode", have.PersistMode, want.PersistMode},
		{"no_ack", have.NoAck, want.NoAck},
		{"sealed", have.Sealed, want.Sealed},
		{"allow_rollup_hdrs", have.AllowRollup, want.AllowRollup},
		{"allow_msg_counter", have.AllowMsgCounter, want.AllowMsgCounter},
		{"mirror", have.Mirror != nil, false},
		{"sources", len(have.Sources), 0},
		{"subject_transform", have.SubjectTransform != nil, false},
		{"max_age", age, time.Duration(0)},
		{"max_msgs", msgs, int64(-1)},
		{"max_msg_size", size, int32(-1)},
	} {
		if c.have != c.want {
			bad = append(bad, fmt.Errorf("stream %s: %s is %v, must be %v", want.Name, c.setting, c.have, c.want))
		}
		if c.setting == "num_replicas" && c.have != c.want {
			bad = append(bad, fmt.Errorf("the bus has --replicas %v: start the dispatchers with that, or alter "+
				"each stream, in a cluster: `nats stream edit NAME --replicas %v`", c.have, c.want))
		}
	}
	if have.PersistMode == jetstream.AsyncPersistMode {
		bad = append(bad, fmt.Errorf("stream %s: the server acknowledges writes before they are stored, and cannot change "+
			"persist_mode of an existing stream: back it up, delete it, and restore it with persist_mode default", want.Name))
	}
	return errors.Join(bad...)
}

// MissingStreamError adds a hint to err if it says that a stream does not exist, or that its servers cannot serve it.
// It returns any other err as it is.
func MissingStreamError(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("%w: nothing of Toolbus has been on this server yet (start a dispatcher, which creates the "+
			"streams, or name another server)", err)
	case HasErrorCode(err, codeOffline):
		return fmt.Errorf("%w: no server that holds it is running (start the missing servers)", err)
	case HasErrorCode(err, codeOfflineReason):
		return fmt.Errorf("%w: the server cannot load it (start the version of the server that wrote it, or restore the "+
			"stream from a backup)", err)
	}
	return err
}

package kv

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The list of kept calls of a partition is in the stream KEPT, in two rings of messages. Each step has the ids of the
// calls with events in the next range of the log. With each step, one slot is written: it has all ids of a share of the
// hashes. So a step may be replaced as soon as each slot was written after it, and nothing needs to be deleted. Each
// message replaces the former one of its subject.
const (
	keptSlots = 64
	keptSteps = 2 * keptSlots
	stepIDs   = 30_000 // of one step, which must fit into a message
)

// keptList keeps the list of kept calls in the stream KEPT, so that a dispatcher knows at its start which calls were in
// the log.
type keptList struct {
	log    *Log
	logger *slog.Logger
	synced bool // see [Log.OpenKept]
	parts  []*keptPart
}

// keptPart is the list of one partition.
type keptPart struct {
	*keptList
	part    subjects.Partition
	ids     *keptIDs
	last    keptMessage // the newest step
	lastSeq uint64      // of that in KEPT
	owed    []int       // slots that are to be written since their steps were
	rewrite bool        // the list must be made again before the next step
	warned  bool

	mu      sync.Mutex
	pending []pendingID
	through place // the last event that the follower has read
}

type pendingID struct {
	id  keptID
	seq uint64
}

// Times of a list: between two steps, for reading it at the start, and for the last step at the end.
const (
	keptInterval = time.Second
	keptLoad     = 5 * time.Second
	keptEnd      = time.Second
)

// OpenKept reads the list of kept calls of each partition, and the events of the log after it, in at most 5 s. Call it
// when it is known where followers of the log begin. The returned function writes what followers read to the list until
// its ctx ends. If a list cannot be read, OpenKept logs a warning, and the function reads the whole log instead.
//
// It is an error that a log lacks what the list has, where no crash does that. synced is true if the server syncs each
// write before it acknowledges it. Otherwise a log may lack the last two minutes.
func (l *Log) OpenKept(ctx context.Context, logger *slog.Logger, synced bool) (run func(context.Context), err error) {
	list, err := l.openKept(ctx, logger, synced)
	return list.run, err
}

func (l *Log) openKept(ctx context.Context, logger *slog.Logger, synced bool) (*keptList, error) {
	list := &keptList{log: l, logger: logger, synced: synced}
	ctx, cancel := context.WithTimeout(ctx, keptLoad)
	defer cancel()
	var g errgroup.Group
	for p, in := range l.parts {
		k := &keptPart{keptList: list, part: subjects.Partition(p), ids: in.kept}
		list.parts = append(list.parts, k)
		in.kept.listed.Store(k)
		g.Go(func() error { return k.open(ctx) })
	}
	return list, g.Wait()
}

// open reads the list twice at most: another dispatcher may replace messages meanwhile.
func (k *keptPart) open(ctx context.Context) error {
	err := k.load(ctx)
	if errors.Is(err, errKeptLacks) {
		err = k.load(ctx)
	}
	if err == nil && k.last.number > 0 {
		err = k.read(ctx, k.last.through, k.followed)
	}
	lost := errors.Is(err, ErrStreamRolledBack)
	if lost && !k.synced {
		var e error
		lost, e = k.lacksSynced(ctx)
		err = errors.Join(err, e)
	}
	if lost {
		return fmt.Errorf("stream %s: %v; restore it from a backup, or let lost calls run again: "+
			"nats stream purge %s --subject '%s' (on a bus with tokens with --nkey DIR/dispatcher.nk, DIR being the folder of "+
			"--secrets-dir)", k.part.Stream(), err, subjects.KeptStream, k.part.KeptAll())
	}
	if err != nil {
		k.logger.Warn("the list of kept calls is made from the call log: calls that it has lost are not known",
			"stream", subjects.KeptStream, "partition", k.part, "err", err)
	}
	k.rewrite = err != nil || k.last.number == 0
	return nil
}

// run writes what followers have read to the lists until ctx ends.
func (l *keptList) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, k := range l.parts {
		wg.Go(func() { k.run(ctx) })
	}
}

func (k *keptPart) run(ctx context.Context) {
	tries := timer.Backoff{Pause: time.Second, MaxPause: time.Minute}
	for k.rewrite {
		if k.warn(k.makeAgain(ctx)) {
			break
		}
		if !timer.Sleep(ctx, tries.Next()) {
			return
		}
	}
	set := k.ids.set()
	for timer.Sleep(ctx, keptInterval) {
		ok := k.warn(k.flush(ctx))
		if now := k.ids.set(); ok && now != set && k.knowsAll() && k.warn(k.writeSlots(ctx)) {
			set = now
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keptEnd)
	defer cancel()
	k.warn(k.flush(ctx))
}

// warn logs the first error, and reports whether err is nil. It does not log that another dispatcher wrote first: then
// the list is written.
func (k *keptPart) warn(err error) bool {
	if bus.HasErrorCode(err, bus.CodeWrongLast) {
		return false
	}
	if err != nil && !k.warned {
		k.logger.Warn("the list of kept calls is not written", "stream", subjects.KeptStream, "partition", k.part, "err", err)
	}
	k.warned = err != nil
	return err == nil
}

// makeAgain writes all slots, from the call log, and then a first step.
func (k *keptPart) makeAgain(ctx context.Context) error {
	if err := k.latest(ctx); err != nil && !errors.Is(err, errKeptForm) {
		return err
	}
	through := place{}
	if err := k.read(ctx, 0, func(_ keptID, seq uint64, at time.Time) { through = place{seq, at} }); err != nil {
		return err
	}
	k.last.through = 0 // may be of a log that has lost its end
	if err := k.writeSlots(ctx); err != nil {
		return err
	}
	return k.write(ctx, keptMessage{number: k.last.number + 1, from: 1, through: through.seq, at: through.at})
}

// followed notes an event that the follower has read.
func (k *keptPart) followed(id keptID, seq uint64, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if seq > k.through.seq && len(k.pending) < stepIDs*keptSteps {
		k.through = place{seq, at}
		k.pending = append(k.pending, pendingID{id, seq})
	}
}

// flush writes the pending ids, and a slot with each step. After an error, ids stay pending, and the slot owed.
func (k *keptPart) flush(ctx context.Context) error {
	for {
		if err := k.writeOwed(ctx); err != nil {
			return err
		}
		step, n := k.step()
		if n == 0 {
			return nil
		}
		if err := k.write(ctx, step); err != nil {
			if e := k.latest(ctx); e != nil || k.last.number < step.number { // else another dispatcher was faster
				return cmp.Or(e, err)
			}
			continue
		}
		k.drop(n)
		k.owe()
	}
}

// owe notes that the slot of the newest step is to be written. If another dispatcher has written the step, it may have
// died before it wrote the slot, and a slot that was left out twice makes a list that cannot be read.
func (k *keptPart) owe() {
	if slot := int(k.last.number % keptSlots); !slices.Contains(k.owed, slot) {
		k.owed = append(k.owed, slot)
	}
}

// knowsAll reports whether the ids have all of the newest step. The follower of this dispatcher may be behind that of
// another one.
func (k *keptPart) knowsAll() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.through.seq >= k.last.through
}

// writeOwed writes the slots that are owed. It does nothing while the ids lack some of the newest step.
func (k *keptPart) writeOwed(ctx context.Context) error {
	for len(k.owed) > 0 && k.knowsAll() {
		if err := k.writeSlot(ctx, k.owed[0]); err != nil {
			return err
		}
		k.owed = k.owed[1:]
	}
	return nil
}

// step returns the next step, and how many pending events are in it.
func (k *keptPart) step() (m keptMessage, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.skip()
	if len(k.pending) == 0 {
		return m, 0
	}
	n = min(len(k.pending), stepIDs)
	m = keptMessage{number: k.last.number + 1, from: k.last.through + 1, through: k.pending[n-1].seq}
	if n == len(k.pending) {
		m.at = k.through.at
	}
	once := make(map[keptID]bool, n)
	for _, p := range k.pending[:n] {
		if r, ok := k.ids.record(p.id); ok && !once[p.id] {
			once[p.id] = true
			m.ids = append(m.ids, r)
		}
	}
	return m, n
}

// drop forgets the first n pending events.
func (k *keptPart) drop(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pending = slices.Clone(k.pending[n:])
}

// skip drops the pending events that the newest step has. Callers hold k.mu.
func (k *keptPart) skip() {
	n := 0
	for n < len(k.pending) && k.pending[n].seq <= k.last.through {
		n++
	}
	k.pending = k.pending[n:]
}

const keptAnswer = 2 * time.Second

// write appends a step, unless another dispatcher has written one since the newest that is known.
func (k *keptPart) write(ctx context.Context, step keptMessage) error {
	msg := nats.NewMsg(k.part.KeptStep(int(step.number % keptSteps)))
	msg.Data = step.encode()
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(k.lastSeq, 10))
	msg.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, k.part.KeptSteps())
	ack, err := bus.Publish(ctx, k.log.js, msg, keptAnswer)
	if err == nil {
		step.ids = nil
		k.last, k.lastSeq = step, ack.Sequence
	}
	return err
}

// writeSlots writes all slots.
func (k *keptPart) writeSlots(ctx context.Context) error {
	for slot := range keptSlots {
		if err := k.writeSlot(ctx, slot); err != nil {
			return err
		}
	}
	k.owed = nil
	return nil
}

func (k *keptPart) writeSlot(ctx context.Context, slot int) error {
	m := keptMessage{number: k.last.number, through: k.last.through, ids: k.ids.slot(slot)}
	msg := nats.NewMsg(k.part.KeptSlot(slot))
	msg.Data = m.encode()
	_, err := bus.Publish(ctx, k.log.js, msg, keptAnswer)
	return err
}

// latest reads the newest step, which another dispatcher may have written.
func (k *keptPart) latest(ctx context.Context) error {
	stream, err := k.log.js.Stream(ctx, subjects.KeptStream)
	if err != nil {
		return err
	}
	msg, err := stream.GetLastMsgForSubject(ctx, k.part.KeptSteps())
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		k.last, k.lastSeq = keptMessage{}, 0
		return nil
	}
	if err != nil {
		return err
	}
	m, err := decodeKept(msg.Data)
	if err != nil {
		return err
	}
	m.ids = nil
	k.last, k.lastSeq = m, msg.Sequence
	k.owe()
	return nil
}

// load reads the list.
func (k *keptPart) load(ctx context.Context) error {
	if err := k.latest(ctx); err != nil || k.last.number == 0 {
		return err
	}
	if err := k.ofThisLog(ctx); err != nil {
		return err
	}
	var steps []keptMessage
	slots := map[int]uint64{} // the number of each
	cfg := jetstream.OrderedConsumerConfig{NamePrefix: rand.Text(), FilterSubjects: []string{k.part.KeptAll()}}
	for m, err := range bus.Messages(ctx, k.log.js, subjects.KeptStream, cfg, keptLoad) {
		if err != nil {
			return err
		}
		part, err := decodeKept(m.Data())
		if err != nil {
			return err
		}
		if part.from > 0 {
			steps = append(steps, part)
			continue
		}
		slot, _ := strconv.Atoi(m.Subject()[strings.LastIndexByte(m.Subject(), '.')+1:])
		slots[slot] = part.number
		for _, r := range part.ids {
			k.ids.merge(r)
		}
	}
	return k.add(slots, steps)
}

var errKeptLacks = errors.New("the list of kept calls is incomplete")

// add adds the ids of each step that are not in their slots, because the step is newer. It returns an error if the list
// lacks a slot, or a step after the oldest slot.
func (k *keptPart) add(slots map[int]uint64, steps []keptMessage) error {
	if len(slots) < keptSlots {
		return fmt.Errorf("%w: it has %d of %d slots", errKeptLacks, len(slots), keptSlots)
	}
	oldest, have := k.last.number, map[uint64]bool{}
	for _, n := range slots {
		oldest = min(oldest, n)
	}
	for _, step := range steps {
		have[step.number] = true
		for _, r := range step.ids {
			if step.number > slots[r.id.slot()] {
				k.ids.merge(r)
			}
		}
	}
	for n := oldest + 1; n <= k.last.number; n++ {
		if !have[n] {
			return fmt.Errorf("%w: it has no step %d", errKeptLacks, n)
		}
	}
	return nil
}

// ofThisLog returns an error if the log does not have the event to which the list goes: the server has lost the end of
// the log, and may have used its sequences again.
func (k *keptPart) ofThisLog(ctx context.Context) error {
	stream, err := k.log.js.Stream(ctx, k.part.Stream())
	if err != nil {
		return err
	}
	if end := stream.CachedInfo().State.LastSeq; end < k.last.through {
		return fmt.Errorf("%w: it ends at %d, and the list of kept calls at %d", ErrStreamRolledBack, end, k.last.through)
	}
	if k.last.through == 0 {
		return nil
	}
	msg, err := bus.MessageAt(ctx, stream, k.last.through)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && (k.last.at.IsZero() || msg.Time.Equal(k.last.at)):
		return nil
	case err == nil:
		err = fmt.Errorf("%w: there is another event at %d", ErrStreamRolledBack, k.last.through)
	}
	return err
}

// read reads the ids of the valid events of the log after a sequence, and passes each to note.
func (k *keptPart) read(ctx context.Context, after uint64, note func(id keptID, seq uint64, at time.Time)) error {
	f := NewFollower(k.log.js, k.part) // knows which events are valid
	f.Passes = k.log.local.passes
	if err := f.begin(ctx, after+1); err != nil {
		return err
	}
	cfg := bus.StartAfter(after)
	cfg.NamePrefix, cfg.FilterSubjects, cfg.HeadersOnly = rand.Text(), []string{k.part.All()}, true
	for m, err := range bus.Messages(ctx, k.log.js, k.part.Stream(), cfg, bus.ReadTimeout) {
		if err != nil {
			return err
		}
		e, err := DecodeEvent(m.Subject(), m.Headers())
		if err != nil {
			continue
		}
		if _, ok := f.fold(ctx, e, place{m.Seq, m.Time}); ok {
			id := keptIDOf(e.State.Tool, e.State.ID)
			k.ids.put(id, m.Seq, m.Time, expiresAt(m.Headers(), m.Time))
			note(id, m.Seq, m.Time)
		}
	}
	return nil
}

package check

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Largest numbers of requests with large inputs that a dispatcher checks at once, in all and of one actor, so that
// other requests still find a handler.
const (
	maxInputsHeld  = 256
	maxActorInputs = 32
)

// littleMore is the tolerance, in bytes, when the estimated memory for an input is compared with the reserved memory.
const littleMore = 1 << 20

// The hashes of valid large inputs are cached, because clients send a request again every two seconds until it has an
// outcome. A payload never changes, because its name is its hash.
const (
	maxPrints  = 1024
	printsTime = time.Minute
)

// inputs limits the memory for large inputs. A dispatcher reads an input completely to check it, and a request of a
// few hundred bytes may refer to 64 MiB.
type inputs struct {
	memory *flow.MemoryBudget
	known  *flow.TTLMap[*prints]
}

// readTime is the longest time to read an input.
const readTime = 10 * time.Second

// prints holds the hashes of an input that was checked.
type prints struct {
	fingerprint, arguments string
}

func newInputs(bytes int64) *inputs {
	return &inputs{
		memory: flow.NewMemoryBudget(bytes, maxActorInputs, maxInputsHeld), known: flow.NewTTLMap[*prints](maxPrints,
			printsTime),
	}
}

// large is an input in the payload store.
type large struct {
	ref       envelope.PayloadRef
	key       string  // of its prints in inputs.known; holds all values that they depend on
	prints    *prints // nil until known
	share     *flow.Reservation
	canonical bool            // the input is in canonical form
	refusal   *envelope.Error // the input could not be had
}

// owner returns the owner of the candidate's large input.
func (c *candidate) owner() subjects.Owner { return subjects.Owner(c.In.From) }

// keyOf returns the cache key of a large input. It contains the owner, so that a caller cannot find out whether
// another owner has stored the same payload.
func keyOf(c *candidate, ref envelope.PayloadRef) string {
	var b strings.Builder
	owner := c.owner()
	for _, part := range [...]string{owner.Tenant, owner.Actor, ref.String(), c.Tool.Digest, c.Req.Fn, c.Req.Context.Env} {
		b.WriteString(strconv.Itoa(len(part)) + ":" + part)
	}
	fmt.Fprintf(&b, "%q", c.Req.Context.Scope) // fmt sorts the keys
	// The policy may prohibit arguments in this lane.
	fmt.Fprintf(&b, "%q%q", c.Policy.Versions(), c.Req.Context.LaneID)
	return b.String()
}

// fetched sets the input of a candidate. If it is in the payload store, fetched reads it, unless its hashes are
// cached.
func (s *Stages) fetched(ctx context.Context, c *candidate) *envelope.Error {
	if c.In.InputRef == "" {
		c.input = c.Req.Input
		return fitsInline(c.input)
	}
	ref := envelope.ParsePayloadRef(c.In.InputRef)
	switch {
	case ref == nil:
		return envelope.NewError(envelope.CodeInputRef, fmt.Sprintf("the reference to the input, %.100q, is malformed",
			c.In.InputRef))
	case string(c.Req.Input) != "null":
		return envelope.NewError(envelope.CodeInputRef, "the request has both an input and a reference to one")
	case ref.Bytes > envelope.MaxPayload:
		return envelope.NewError(envelope.CodeLimit, fmt.Sprintf("the reference is to an input of %d bytes, at most %d "+
			"are allowed", ref.Bytes, envelope.MaxPayload))
	}
	key := keyOf(c, *ref)
	if l := c.large; l != nil && (l.refusal != nil || c.input != nil || l.key == key) { // of the round before
		l.key = key
		return l.refusal
	}
	c.large = &large{ref: *ref, key: key}
	if c.large.prints = s.inputs.known.Get(c.large.key, s.now()); c.large.prints != nil {
		return nil
	}
	if pause := s.overQuota(c.owner()); pause > 0 {
		return storeTaken(pause)
	}
	c.large.refusal = s.fetch(ctx, c, 2*ref.Bytes)
	return c.large.refusal
}

func (s *Stages) overQuota(of subjects.Owner) time.Duration {
	if s.OverQuota == nil {
		return 0
	}
	return s.OverQuota(of)
}

// storeTaken returns the refusal of a large input of an actor that has filled the payload store. Inputs whose hashes
// are cached are not refused.
func storeTaken(pause time.Duration) *envelope.Error {
	return envelope.NewError(envelope.CodeStoreFull,
		"you have filled the payload store: the older half of what you stored was dropped").
		WithFix("send fewer large inputs, and again those of calls that have not ended; the operator may enlarge the " +
			"stream PAYLOADS").
		WithRetryAfter(pause)
}

// fitsInline refuses an inline input that is too large. The request event contains it together with the outcomes of
// earlier attempts, and must not exceed max_payload.
func fitsInline(input jsontext.Value) *envelope.Error {
	if len(input) <= envelope.MaxInline {
		return nil
	}
	return envelope.NewError(envelope.CodeLimit,
		fmt.Sprintf("the input is %d bytes of JSON, at most %d fit into a request: "+
			"a larger one is put into the payload store", len(input), envelope.MaxInline))
}

func noMemoryForInput() *envelope.Error {
	return envelope.NewError(envelope.CodeCapacity, "too many large inputs are being checked").WithRetryAfter(time.Second)
}

// fetch reserves needs bytes of memory, reads a large input, and checks that it is I-JSON. Reading takes twice the
// size of the input, because the messages with its parts become garbage only at the end. If the schema check needs
// more memory than that, fetch releases the memory and starts again with a larger reservation: a request that waits
// for memory must not hold any.
func (s *Stages) fetch(ctx context.Context, c *candidate, needs int64) (refusal *envelope.Error) {
	if refusal := s.reserve(ctx, c, needs); refusal != nil || c.large.prints != nil {
		return refusal
	}
	if c.input, refusal = s.read(ctx, c.owner().On(c.Tool.Pool), c.large.ref); refusal != nil {
		return refusal
	}
	c.large.share.Spent(c.large.ref.Bytes)
	text := ijson.Scan(c.input, "")
	if bad := text.Violations; len(bad) > 0 {
		return envelope.InputFault(jsonschema.Below("/input", bad))
	}
	c.large.canonical = text.Canonical
	if c.verdict.accepted = c.fn.Request.Accepts(c.input); c.verdict.accepted {
		c.verdict.valid = true
		return nil
	}
	decoded := jsonschema.Cost(c.input, text.Values)
	if c.fn.Request.HasFormats() {
		decoded *= 2 // it is decoded again for them
	}
	if all := c.large.ref.Bytes + decoded; all > c.large.share.Bytes()+littleMore {
		c.release()
		return s.fetch(ctx, c, all)
	}
	return nil
}

// reserve waits for memory until shortly before the caller's deadline, which leaves time for a refusal. If a copy of
// the request has stored the hashes in the cache meanwhile, it takes them and reserves nothing.
func (s *Stages) reserve(ctx context.Context, c *candidate, needs int64) *envelope.Error {
	ctx, cancel := s.waiting(ctx, c, 0)
	defer cancel()
	share, err := s.inputs.memory.Acquire(ctx, flow.Sender(c.In.From.Family()), needs)
	switch {
	case errors.Is(err, flow.ErrTooLarge):
		return envelope.NewError(envelope.CodeLimit,
			fmt.Sprintf("to check the input takes %d MiB of memory, more than this dispatcher has for inputs: %d MiB",
				(needs+1<<20-1)>>20, s.inputs.memory.Total()>>20)).
			WithFix("send less at once, or fewer and longer values; the operator may give dispatchers more by " +
				"--payload-memory")
	case err != nil:
		return noMemoryForInput()
	}
	c.large.share = share
	if c.large.prints = s.inputs.known.Get(c.large.key, s.now()); c.large.prints != nil {
		c.release()
	}
	return nil
}

// waiting lets later requests of the sender overtake the candidate. The context that it returns ends shortly before
// the caller's deadline, but not within the time least.
func (s *Stages) waiting(ctx context.Context, c *candidate, least time.Duration) (context.Context, context.CancelFunc) {
	c.In.OnlyWaits()
	left := wished(c.In, c.Req).Sub(s.now())
	return context.WithTimeout(ctx, max(least, left-min(left/8, time.Second/2)))
}

// release frees the memory of a large input. The input must not be used afterwards.
func (c *candidate) release() {
	if c.large != nil && c.large.share != nil {
		c.input = nil
		c.large.share.Release()
		c.large.share = nil
	}
}

// read reads an input from the payload store.
func (s *Stages) read(
	ctx context.Context, of subjects.PayloadOwner, ref envelope.PayloadRef,
) (jsontext.Value, *envelope.Error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	data, err := s.Payloads.Get(ctx, of, ref)
	switch {
	case err != nil && ctx.Err() != nil: // it may be stored; the client sends the request again
		return nil, envelope.NewError(envelope.CodeUnavailable, "the input could not be read from the payload store").
			WithRetryAfter(time.Second)
	case err != nil:
		return nil, payloadFault(err).WithCause(err.Error()).WithEffect(envelope.EffectNone)
	}
	return data, nil
}

// payloadFault returns the error of the taxonomy for err: its own, or that the input is missing.
func payloadFault(err error) *envelope.Error {
	if known, ok := errors.AsType[envelope.Fault](err); ok {
		return known.Fault()
	}
	return envelope.NewError(envelope.CodeInputMissing, "")
}

// hashes returns the hashes of a candidate's input as it was sent. A request that is repeated is compared with that.
func (s *Stages) hashes(c *candidate) (fingerprint, arguments string, err error) {
	l := c.large
	if l == nil {
		return envelope.Hashes(c.Req, c.Req.Input)
	}
	if l.prints == nil {
		p := new(prints)
		p.fingerprint, p.arguments, err = envelope.HashesOfPayload(c.Req, l.ref, c.input, l.canonical)
		if err != nil {
			return "", "", err
		}
		l.prints = p
		s.inputs.known.Put(l.key, p, s.now())
	}
	return l.prints.fingerprint, l.prints.arguments, nil
}

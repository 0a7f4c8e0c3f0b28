package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/store"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// shelf is a bucket with a store of one process.
type shelf struct {
	*bustest.Bus
	*store.Store
}

func open(t *testing.T, b *bustest.Bus, tools ...*tool.Manifest) shelf {
	t.Helper()
	s, err := store.Open(t.Context(), b.JS, tools, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return shelf{b, s}
}

// set returns a valid set without tools, whose documents contain a comment.
func set(comment string) policy.Documents {
	with := func(text string) []byte { return []byte("# " + comment + "\n" + text + "\n") }
	return policy.Documents{
		Roles: with("roles: [{role_id: agent, allowed_lanes: [main]}]"),
		Lanes: with("lanes: [{lane_id: main, allowed_tools: []}]"), ToolRegistry: with("tools: []"),
	}
}

// put stores the documents of a set.
func (s shelf) put(d policy.Documents) {
	s.T.Helper()
	for _, document := range d.All() {
		n := 0
		for part := range slices.Chunk(document, envelope.PolicyPartBytes) {
			if err := s.PutPart(s.T.Context(), policy.Digest(document), n, part); err != nil {
				s.T.Fatal(err)
			}
			n++
		}
	}
}

// push checks and pushes a set whose documents are stored.
func (s shelf) push(v envelope.PolicyVersions, expected uint64) (uint64, error) {
	s.T.Helper()
	q := envelope.PolicyPushRequest{Versions: v, Expected: expected, Reason: "because"}
	if err := s.Check(s.T.Context(), q); err != nil {
		return 0, err
	}
	return s.Push(s.T.Context(), q, "default/operator://root", "", func() error { return nil })
}

// mustPush stores and pushes a set.
func (s shelf) mustPush(d policy.Documents, expected uint64) uint64 {
	s.T.Helper()
	s.put(d)
	revision, err := s.push(d.Versions(), expected)
	if err != nil {
		s.T.Fatal(err)
	}
	return revision
}

// inForce confirms and returns the policy.
func (s shelf) inForce() (*policy.Snapshot, error) {
	s.T.Helper()
	if err := s.Confirm(s.T.Context()); err != nil {
		s.T.Fatal(err)
	}
	return s.Current()
}

// A pushed set is in force in all stores, large documents included, and another one replaces it.
func TestPush(t *testing.T) {
	b := bustest.Start(t)
	here, there := open(t, b), open(t, b)
	if _, err := here.Current(); !errors.Is(err, policy.ErrStale) {
		t.Errorf("before anything was confirmed: %v", err)
	}
	if _, err := here.inForce(); !errors.Is(err, policy.ErrNone) {
		t.Errorf("before the first push: %v", err)
	}
	revision := uint64(0)
	for _, d := range []policy.Documents{set("one"), set(strings.Repeat("large ", 100_000)), set("one")} {
		revision = here.mustPush(d, revision)
		for _, s := range []shelf{here, there} {
			snapshot, err := s.inForce()
			if err != nil {
				t.Fatal(err)
			}
			if snapshot.Versions() != d.Versions() {
				t.Errorf("revision %d: %v is in force", revision, snapshot.Versions())
			}
		}
		read, err := there.Documents(t.Context(), d.Versions())
		if err != nil || string(read.Roles) != string(d.Roles) {
			t.Errorf("read %d bytes of %d: %v", len(read.Roles), len(d.Roles), err)
		}
	}
}

// Two operators who push at the same time do not replace each other's set unseen.
func TestPushesMeet(t *testing.T) {
	s := open(t, bustest.Start(t))
	first := s.mustPush(set("first"), 0)
	s.put(set("second"))
	for _, expected := range []uint64{0, first + 1} {
		if _, err := s.push(set("second").Versions(), expected); !errors.Is(err, store.ErrMoved) {
			t.Errorf("expecting %d: %v", expected, err)
		}
	}
	if now, err := s.inForce(); err != nil || now.Versions() != set("first").Versions() {
		t.Errorf("in force is not the first: %v", err)
	}
}

// An invalid set is refused as a whole, with all problems, and the one in force stays.
func TestInvalidSetsAreRefused(t *testing.T) {
	s := open(t, bustest.Start(t))
	first := s.mustPush(set("good"), 0)
	bad := set("bad")
	bad.Roles = []byte("roles: [{role_id: agent, allowed_lanes: [main, nowhere]}, {role_id: agent, allowed_lanes: []}]\n")
	s.put(bad)
	_, err := s.push(bad.Versions(), first)
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "nowhere") ||
		strings.Count(err.Error(), policy.RolesFile) < 2 {
		t.Errorf("the error is %v", err)
	}
	if now, err := s.inForce(); err != nil || now.Versions() != set("good").Versions() {
		t.Errorf("in force is not the former: %v", err)
	}
}

// A set that lets a path through unchecked is refused, and stays in force where a former build has pushed it.
func TestUnsanitizedSetsAreRefused(t *testing.T) {
	request, err := jsonschema.Compile("request.json", []byte(`{"properties":{"path":{"type":"string"}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, d := open(t, bustest.Start(t), &tool.Manifest{
		ToolID: "a", Semver: "1.0.0", Status: tool.StatusActive, Class: call.Pure,
		Functions: map[string]*tool.Function{"run": {Name: "run", Request: request}},
	}), set("old")
	d.ToolRegistry = []byte("tools: [{tool_name: a, description: d, enabled: true, idempotent: true, " +
		"timeout_default_ms: 1, allowed_lanes: [main], required_scope_keys: [], prohibited_flags: []}]\n")
	s.put(d)
	_, err = s.push(d.Versions(), 0)
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), policy.ToolRegistryFile+":1:9") ||
		!strings.Contains(err.Error(), `unsanitized: ["/properties/path"]`) {
		t.Errorf("the error is %v", err)
	}
	pushed := func() error { return nil }
	q := envelope.PolicyPushRequest{Versions: d.Versions()}
	if _, err := s.Push(t.Context(), q, "default/operator", "", pushed); err != nil {
		t.Fatal(err)
	}
	if now, err := s.inForce(); err != nil || now.Versions() != d.Versions() {
		t.Errorf("a set of a former build is not in force: %v", err)
	}
}

// A document whose parts are missing or damaged never comes in force, and can be stored again.
func TestDamagedDocuments(t *testing.T) {
	s := open(t, bustest.Start(t))
	d := set(strings.Repeat("large ", 100_000))
	v := d.Versions()
	for name, damage := range map[string]func(){
		"missing":     func() {},
		"one part":    func() { s.mustPut(v.Roles, 0, d.Roles[:envelope.PolicyPartBytes]) },
		"other bytes": func() { s.mustPut(v.Roles, 0, []byte("roles: []")) },
	} {
		damage()
		if _, err := s.push(v, 0); !errors.Is(err, store.ErrIncomplete) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.mustPush(d, 0)
}

func (s shelf) mustPut(digest string, n int, data []byte) {
	s.T.Helper()
	if err := s.PutPart(s.T.Context(), digest, n, data); err != nil {
		s.T.Fatal(err)
	}
}

// A store that does not ask any more has no policy a second later: its process was suspended, or has no server.
func TestStale(t *testing.T) {
	b := bustest.Start(t)
	here, suspended := open(t, b), open(t, b)
	first := here.mustPush(set("first"), 0)
	if _, err := suspended.inForce(); err != nil {
		t.Fatal(err)
	}
	here.mustPush(set("second"), first)
	pushed := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for at := range tick.C {
		now, err := suspended.Current()
		if errors.Is(err, policy.ErrStale) {
			break
		}
		if err != nil || at.Sub(pushed) > time.Second {
			t.Fatalf("%s after the push: %v, %v", at.Sub(pushed), now, err)
		}
	}
	if now, err := suspended.inForce(); err != nil || now.Versions() != set("second").Versions() {
		t.Errorf("resumed: %v", err)
	}
}

// Run follows pushes until its context ends.
func TestRun(t *testing.T) {
	b := bustest.Start(t)
	here, follows := open(t, b), open(t, b)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); follows.Run(ctx) }()
	revision := uint64(0)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := range 5 {
		d := set(fmt.Sprint(n))
		revision = here.mustPush(d, revision)
		pushed := time.Now()
		for range tick.C {
			if now, err := follows.Current(); err == nil && now.Versions() == d.Versions() {
				break
			}
			if time.Since(pushed) > 10*time.Second {
				t.Fatal("the push did not come")
			}
		}
	}
	stop()
	<-done
}

// The history has the newest 64 versions, the one in force first. Documents that none of them names are removed.
func TestHistory(t *testing.T) {
	s := open(t, bustest.Start(t))
	if all, err := s.History(t.Context()); err != nil || len(all) != 0 {
		t.Fatalf("without a policy: %v, %v", all, err)
	}
	revision := uint64(0)
	for n := range 70 {
		revision = s.mustPush(set(fmt.Sprint(n%66)), revision)
	}
	all, err := s.History(t.Context())
	if err != nil || len(all) != 64 {
		t.Fatalf("%d versions: %v", len(all), err)
	}
	for i, v := range all {
		if v.Versions != set(fmt.Sprint((69-i)%66)).Versions() || v.By != "default/operator://root" ||
			v.Reason != "because" || v.At.IsZero() || i > 0 && v.Revision >= all[i-1].Revision {
			t.Fatalf("version %d is %+v", i, v)
		}
	}
	s.put(set("refused"))
	s.mustPush(set("66"), revision)
	s.put(set("new")) // a push may follow
	if err := s.RemoveUnused(t.Context()); err != nil {
		t.Fatal(err)
	}
	for comment, stays := range map[string]bool{
		"3": true, "7": true, "6": false, "refused": false, "new": true,
	} {
		_, err := s.Documents(t.Context(), set(comment).Versions())
		if stays != (err == nil) || !stays && !errors.Is(err, store.ErrIncomplete) {
			t.Errorf("set %s: %v", comment, err)
		}
	}
}

// An entry that this build cannot read is no policy: nothing is decided until one is pushed that it can.
func TestUnreadableEntry(t *testing.T) {
	s := open(t, bustest.Start(t))
	first := s.mustPush(set("first"), 0)
	bucket, err := s.JS.KeyValue(t.Context(), subjects.PolicyBucket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Update(t.Context(), subjects.PolicyEntry, []byte(`{"form":99}`), first); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Confirm(ctx); err == nil {
		t.Error("a newer form was taken for a policy")
	}
	if _, err := s.Current(); !errors.Is(err, policy.ErrStale) {
		t.Errorf("the policy: %v", err)
	}
}

// The leader of the bucket answers, and no replica that may be behind.
func TestLeaderAnswers(t *testing.T) {
	b := bustest.Start(t)
	stream, err := b.JS.Stream(t.Context(), subjects.PolicyStream)
	if err != nil {
		t.Fatal(err)
	}
	if stream.CachedInfo().Config.AllowDirect {
		t.Error("replicas answer")
	}
}

package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/store"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The process that pushes a set applies what it has compiled for the check: it neither reads nor compiles the documents
// again, which would take longer than calls may be stopped.
func TestPushAppliesWhatWasChecked(t *testing.T) {
	b := bustest.Start(t)
	s := open(t, b)
	bucket, err := b.JS.KeyValue(t.Context(), subjects.PolicyBucket)
	if err != nil {
		t.Fatal(err)
	}
	d := set("one")
	s.put(d)
	record := func(context.Context, call.Sender, envelope.PolicyPushRequest) error {
		for _, digest := range d.Versions().All() { // after the check, and before the set is in force
			if err := bucket.Delete(t.Context(), subjects.PolicyPart(digest, 0)); err != nil {
				t.Error(err)
			}
		}
		return nil
	}
	service := &store.Service{Store: s.Store, Record: record}
	if _, refusal := service.Push(t.Context(), root, envelope.PolicyPushRequest{Versions: d.Versions()}); refusal != nil {
		t.Fatal(refusal)
	}
	if now, err := s.Current(); err != nil || now.Versions() != d.Versions() {
		t.Errorf("in force is %v, %v", now, err)
	}
}

// Other processes decide by a set that the process has parsed that took its push: they do not read the documents, whose
// parsing takes longer than calls may be stopped. Without that, or if another build has parsed the set, they parse it.
func TestOthersParseNothing(t *testing.T) {
	d := set("one")
	for name, c := range map[string]struct {
		damage func(s shelf, parsed string)
		parses bool
	}{
		"parsed":      {func(shelf, string) {}, false},
		"not stored":  {func(s shelf, parsed string) { s.delete(subjects.PolicyPart(parsed, 0)) }, true},
		"damaged":     {func(s shelf, parsed string) { s.replace(subjects.PolicyPart(parsed, 0), []byte("{}")) }, true},
		"other rules": {func(s shelf, _ string) { s.rename("other") }, true},
		"old build":   {func(s shelf, _ string) { s.rename("") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := bustest.Start(t)
			here, there, late := open(t, b), open(t, b), open(t, b)
			here.mustPush(d, 0)
			if err := here.RemoveUnused(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.damage(here, here.parsed())
			if now, err := there.inForce(); err != nil || now.Versions() != d.Versions() {
				t.Errorf("in force is %v, %v", now, err)
			}
			for _, digest := range d.Versions().All() {
				here.delete(subjects.PolicyPart(digest, 0))
			}
			if _, err := late.inForce(); c.parses != errors.Is(err, policy.ErrUnusable) {
				t.Errorf("without the documents: %v", err)
			}
		})
	}
}

// Another process applies a set of 5,000 tools in 2,000 lanes in less than half of the time that its parsing takes,
// from the question for the entry on.
func TestOthersApply(t *testing.T) {
	tools := make([]*tool.Manifest, 5000)
	for i := range tools {
		tools[i] = &tool.Manifest{
			ToolID: fmt.Sprintf("mcp::server::tool-%d", i), Semver: "1.0.0", Status: tool.StatusActive,
			Class: call.SideEffectful, Description: strings.Repeat("words ", 500),
			Whole: fmt.Appendf(nil, `{"allowed_lanes":["lane-%d"]}`, i%1999),
		}
		tools[i].Limits.TimeoutDefaultMS = 15_000
	}
	d, err := policy.Generate(tools)
	if err != nil {
		t.Fatal(err)
	}
	b := bustest.Start(t)
	open(t, b, tools...).mustPush(d, 0)
	applies, parses := time.Hour, time.Hour
	for range 3 {
		there := open(t, b, tools...)
		began := time.Now()
		if now, err := there.inForce(); err != nil || now.Versions() != d.Versions() {
			t.Fatal(err)
		}
		applies = min(applies, time.Since(began))
		began = time.Now()
		if _, err := policy.Parse(d); err != nil {
			t.Fatal(err)
		}
		parses = min(parses, time.Since(began))
	}
	if t.Logf("applied in %s, parsed in %s", applies, parses); 2*applies > parses {
		t.Errorf("applied in %s, parsed in %s", applies, parses)
	}
}

// Of the sets that processes have parsed, that in force is kept alone.
func TestOneParsedSet(t *testing.T) {
	s := open(t, bustest.Start(t))
	first := s.mustPush(set("one"), 0)
	old := s.parsed()
	s.mustPush(set("two"), first)
	if err := s.RemoveUnused(t.Context()); err != nil {
		t.Fatal(err)
	}
	for digest, stays := range map[string]bool{old: false, s.parsed(): true} {
		if part, err := s.Part(t.Context(), digest, 0); err != nil || stays != (part != nil) {
			t.Errorf("%s: %d bytes, %v", digest, len(part), err)
		}
	}
}

// documents returns the bucket.
func (s shelf) documents() jetstream.KeyValue {
	s.T.Helper()
	bucket, err := s.JS.KeyValue(s.T.Context(), subjects.PolicyBucket)
	if err != nil {
		s.T.Fatal(err)
	}
	return bucket
}

func (s shelf) delete(key string) {
	s.T.Helper()
	if err := s.documents().Delete(s.T.Context(), key); err != nil {
		s.T.Fatal(err)
	}
}

func (s shelf) replace(key string, value []byte) {
	s.T.Helper()
	if _, err := s.documents().Put(s.T.Context(), key, value); err != nil {
		s.T.Fatal(err)
	}
}

// stored returns the entry as it is stored, and the digest of the parsed set that it names.
func (s shelf) stored() (entry []byte, parsed string) {
	s.T.Helper()
	e, err := s.documents().Get(s.T.Context(), subjects.PolicyEntry)
	if err != nil {
		s.T.Fatal(err)
	}
	var v struct {
		Parsed string `json:"parsed"`
	}
	if err := json.Unmarshal(e.Value(), &v); err != nil || !policy.IsDigest(v.Parsed) {
		s.T.Fatalf("%s: %v", e.Value(), err)
	}
	return e.Value(), v.Parsed
}

// parsed returns the digest of the parsed set.
func (s shelf) parsed() string { _, digest := s.stored(); return digest }

// rename replaces the rules of the parsed set, or leaves its digest out of the entry.
func (s shelf) rename(rules string) {
	s.T.Helper()
	entry, digest := s.stored()
	named := ""
	if rules != "" {
		part, err := s.Part(s.T.Context(), digest, 0)
		if err != nil {
			s.T.Fatal(err)
		}
		part = bytes.Replace(part, []byte(`"rules":"`), []byte(`"rules":"`+rules), 1)
		named = policy.Digest(part)
		s.mustPut(named, 0, part)
	}
	s.replace(subjects.PolicyEntry, bytes.Replace(entry, []byte(digest), []byte(named), 1))
}

// A set with more than 2,000 lanes, or more than 2 MiB, is refused at a push with its place and a fix, and it cannot be
// used where a former build has pushed it.
func TestLimitsOfSets(t *testing.T) {
	var lanes strings.Builder
	for i := range 2001 {
		fmt.Fprintf(&lanes, "  - {lane_id: l%d, allowed_tools: []}\n", i)
	}
	for name, c := range map[string]struct {
		lanes string
		says  string
	}{
		"2,001 lanes": {"lanes:\n" + lanes.String(), policy.LanesFile + ":2:3: lanes has too many items (at most 2000)"},
		"2 MiB": {
			"lanes: [] #" + strings.Repeat("x", policy.MaxSet),
			policy.ToolRegistryFile + ": the documents of the set are larger than 2 MiB together (",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, bustest.Start(t))
			d := set("large")
			d.Roles, d.Lanes = []byte("roles: []\n"), []byte(c.lanes)
			s.put(d)
			q := envelope.PolicyPushRequest{Versions: d.Versions()}
			_, refusal := desk(s, nil).Push(t.Context(), root, q)
			if refusal == nil || refusal.Code != envelope.CodeMalformed || !strings.Contains(refusal.Message, c.says) {
				t.Errorf("refused with %.300v, want %s", refusal, c.says)
			}
			if _, err := s.Push(t.Context(), q, "default/operator", "", func() error { return nil }); err != nil {
				t.Fatal(err)
			}
			if _, err := s.inForce(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("in force: %.300v, want %s", err, c.says)
			}
		})
	}
}

package policy_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// everyField returns a set whose lanes and entries have every field, with empty lists among them.
func everyField() policy.Documents {
	return policy.Documents{
		Roles: []byte("roles: [{role_id: agent, allowed_lanes: [main, other]}, {role_id: nobody, allowed_lanes: []}]\n"),
		Lanes: []byte("lanes: [{lane_id: main, allowed_tools: ['*'], required_scope_keys: [case_id], write: true, " +
			"prohibited_flags: [force, 'tag:x'], allowed_run_states: [paused], runs: implicit, audit: strict}, " +
			"{lane_id: other, allowed_tools: []}]\n"),
		ToolRegistry: []byte("tools: [{tool_name: a, description: d, enabled: true, idempotent: true, " +
			"timeout_default_ms: 600000, allowed_lanes: [main], required_scope_keys: [k], " +
			"prohibited_flags: [force], write_targets: [], unsanitized: [/properties/path], versions: ^1.2}]\n"),
	}
}

// A set that another dispatcher has parsed is the one that this process would parse itself.
func TestReadParsed(t *testing.T) {
	g := generate(rand.New(rand.NewPCG(77, 1)), 5, 12, 30)
	for name, d := range map[string]policy.Documents{"generated": g.documents(), "every field": everyField()} {
		set, err := policy.Parse(d)
		if err != nil {
			t.Fatal(name, err)
		}
		raw, err := set.Parsed()
		if err != nil {
			t.Fatal(name, err)
		}
		read, err := policy.ReadParsed(raw, d.Versions())
		if err != nil {
			t.Fatal(name, err)
		}
		if !reflect.DeepEqual(read.Roles, set.Roles) || !reflect.DeepEqual(read.Lanes, set.Lanes) ||
			!reflect.DeepEqual(read.Entries, set.Entries) || read.Versions() != d.Versions() {
			t.Errorf("%s: %+v was read as %+v", name, set, read)
		}
		other := d.Versions()
		other.Lanes = other.Roles
		rules := raw[bytes.Index(raw, []byte(`"rules":"`))+len(`"rules":"`):][:64]
		for what, err := range map[string]error{
			"another set":    second(policy.ReadParsed(raw, other)),
			"another build":  second(policy.ReadParsed(bytes.Replace(raw, rules, []byte("x"), 1), d.Versions())),
			"a part of it":   second(policy.ReadParsed(raw[:len(raw)-1], d.Versions())),
			"what is no set": second(policy.ReadParsed([]byte("{}"), d.Versions())),
		} {
			if err == nil || what == "another build" && !errors.Is(err, policy.ErrOtherRules) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

func second(_ *policy.Set, err error) error { return err }

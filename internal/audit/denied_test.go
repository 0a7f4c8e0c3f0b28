package audit

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// String of a Count is short, because it ends a row of `toolbus audit replay`.
func TestCountIsReadable(t *testing.T) {
	for says, c := range map[string]Count{
		"and more": {State: CountOpened, Over: OverActor}, "× 4970": {State: CountClosed, Opening: "a", Denials: 4970},
	} {
		if c.String() != says {
			t.Errorf("%+v: %s", c, &c)
		}
	}
}

// The record of a refusal contains the hash of the input, also if the input is in the payload store and null in the
// request.
func TestArgumentsHashOfDenied(t *testing.T) {
	ref := envelope.PayloadRef{SHA256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", Bytes: 300_000}
	body := []byte(`{"input":`)
	for name, c := range map[string]struct {
		ref  string
		req  *envelope.Request
		want string
	}{
		"inline": {req: &envelope.Request{Input: jsontext.Value(`{"b":1, "a":2}`)},
			want: envelope.ArgumentsHash([]byte(`{"a":2,"b":1}`))},
		"in the payload store": {ref: ref.String(), req: &envelope.Request{Input: jsontext.Value(`null`)}, want: ref.SHA256},
		"a bad reference": {ref: "sha256:zz;1", req: &envelope.Request{Input: jsontext.Value(`null`)},
			want: envelope.ArgumentsHash([]byte(`null`))},
		"no request": {want: envelope.ArgumentsHash(body)},
		"no input":   {req: &envelope.Request{}, want: envelope.ArgumentsHash(body)},
	} {
		if got := argumentsHash(&call.IncomingRequest{Body: body, InputRef: c.ref}, c.req); got != c.want {
			t.Errorf("%s: %s instead of %s", name, got, c.want)
		}
	}
}

// TestDenied holds that the record of a refusal has every field that the audit rules of the gateway contract name, and
// the step and the rule that refused the request.
func TestDenied(t *testing.T) {
	r := Denied(Refusal{
		In: &call.IncomingRequest{From: call.Sender{Tenant: "t", Actor: "a"}, Tool: "web.fetch"},
		Req: &envelope.Request{CallID: "c", ToolVersion: "1.x", Fn: "fetch", Input: jsontext.Value(`{"n":1}`),
			Context: envelope.RequestContext{RunID: "run", RoleID: "role", LaneID: "lane"}},
		Error: envelope.NewError(envelope.CodeVersion, ""), Step: 5, Rule: "version",
	}, time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC))
	line, err := r.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatal(err)
	}
	for member, want := range map[string]any{
		"event": "tool_denied", "run_id": "run", "role_id": "role", "lane_id": "lane", "tool_name": "web.fetch",
		"arguments_hash_sha256": envelope.ArgumentsHash([]byte(`{"n":1}`)), "contract_version": "v1",
		"timestamp_utc": "2026-11-26T12:00:00Z", "error_code": "C-CONTRACT-VERSION", "step": 5.0, "rule": "version",
	} {
		if got[member] != want {
			t.Errorf("%s is %v, not %v", member, got[member], want)
		}
	}
	if _, ok := got["policy_versions"]; !ok {
		t.Errorf("no policy_versions in %s", line)
	}
}

// The record of a refusal has what the decision depended on, with hashes of the values of the scope.
func TestDeniedHasBasis(t *testing.T) {
	const hash = "b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c" // of "foo" with a newline
	for want, b := range map[string]*Basis{
		"":   nil,
		`{}`: {},
		`{"run":{"state":"paused"},"scope_sha256":{"case_id":"` + hash + `"}}`: {
			Run: &RunBasis{State: "paused"}, Scope: HashScope(map[string]string{"case_id": "foo\n"})},
		`{"scope_sha256":{"case_id":""}}`: {Scope: HashScope(map[string]string{"case_id": ""})},
		`{"run":{"foreign":true}}`:        {Run: &RunBasis{Foreign: true}, Scope: HashScope(nil)},
	} {
		r := Denied(Refusal{In: &call.IncomingRequest{}, Error: envelope.NewError(envelope.CodeScopeKey, ""), Basis: b},
			time.Unix(0, 0))
		line, err := r.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Basis jsontext.Value `json:"decided_on"`
		}
		if err := json.Unmarshal(line, &got); err != nil || string(got.Basis) != want {
			t.Errorf("%s instead of %s, %v", got.Basis, want, err)
		}
		var again Record
		if err := json.Unmarshal(line, &again); err != nil || len(again.Extra) > 0 {
			t.Errorf("%s: %v, %v", line, err, again.Extra)
		}
	}
}

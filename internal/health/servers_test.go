package health

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// The checks compare sample answers of servers with the limits of dispatchers and the profile.
func TestServersSay(t *testing.T) {
	for name, test := range map[string]struct {
		says  string
		want  Want
		check func(all []told[server], want Want) envelope.Check
		is    envelope.CheckStatus
		fix   string
	}{
		"syncs": {`{"jetstream":{"config":{"sync_always":true}}}`, Want{"durable", new(true)}, syncing, envelope.CheckOK, ""},
		"syncs, and dispatchers do not know": {`{"jetstream":{"config":{"sync_always":true}}}`, Want{Fsync: new(false)},
			syncing, envelope.CheckWarning, "with --sync always"},
		"does not, and nobody counts on it": {`{"jetstream":{"config":{}}}`, Want{Profile: "standard"}, syncing,
			envelope.CheckOK, ""},
		"does not, and a dispatcher counts on it": {`{"jetstream":{"config":{}}}`, Want{Fsync: new(true)}, syncing,
			envelope.CheckFailed, "without --sync always"},
		"does not, and its profile says so": {`{"jetstream":{"config":{}}}`, Want{Profile: "durable"}, syncing,
			envelope.CheckFailed, "sync_interval: always"},
		"in the clear": {`{"host":"0.0.0.0"}`, Want{}, heard, envelope.CheckFailed, "give them TLS"},
		"without certificates of clients": {`{"host":"0.0.0.0","tls_required":true}`, Want{}, heard,
			envelope.CheckFailed, "verify: true"},
		"an open cluster": {`{"host":"127.0.0.1","cluster":{"addr":"0.0.0.0"}}`, Want{}, heard, envelope.CheckFailed,
			"TLS with verify"},
		"leaf nodes": {`{"host":"127.0.0.1","leaf":{"port":7422}}`, Want{}, heard, envelope.CheckFailed, "take these blocks"},
		"encrypted": {`{"host":"0.0.0.0","tls_required":true,"tls_verify":true,"cluster":{"addr":"0.0.0.0",` +
			`"tls_required":true}}`, Want{}, heard, envelope.CheckOK, ""},
	} {
		var one told[server]
		if err := json.Unmarshal([]byte(`{"server":{"name":"nats-1"},"data":`+test.says+`}`), &one); err != nil {
			t.Fatal(err)
		}
		c := test.check([]told[server]{one}, test.want)
		if c.Status != test.is || !strings.Contains(c.Fix, test.fix) || (c.Fix == "") != (test.is == envelope.CheckOK) {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func heard(all []told[server], _ Want) envelope.Check { return listening(all) }

// A stream that a server has stopped to write is a failure, and so is JetStream that is off. Others check the rest.
func TestWritesSay(t *testing.T) {
	for says, want := range map[string]envelope.CheckStatus{
		`{"status":"ok","status_code":200}`: envelope.CheckOK,
		`{"status":"error","status_code":503,"errors":[{"type":"STREAM","account":"TB","stream":"KV_runs","error":` +
			`"JetStream stream 'TB > KV_runs' write error: write 1.blk: no space left on device"}]}`: envelope.CheckFailed,
		`{"status":"unavailable","errors":[{"type":"JETSTREAM","error":"JetStream not enabled"}]}`:  envelope.CheckFailed,
		`{"errors":[{"type":"JETSTREAM","error":"JetStream is not current with the meta leader"}]}`: envelope.CheckOK,
	} {
		var one told[writing]
		if err := json.Unmarshal([]byte(`{"server":{"name":"nats-1"},"data":`+says+`}`), &one); err != nil {
			t.Fatal(err)
		}
		c := written([]told[writing]{one})
		if c.Status != want || (c.Fix == "") != (want == envelope.CheckOK) {
			t.Errorf("%s: %+v", says, c)
		}
	}
}

// A connection in an account for clients that no token has opened is a failure, but not one without an account: the
// server still authenticates it.
func TestConnectionsSay(t *testing.T) {
	for says, want := range map[string]envelope.CheckStatus{
		`{"name":"toolbus-cli","account":"","authorized_user":"[REDACTED]"}`: envelope.CheckOK,
		`{"name":"x","account":"AGENTS","authorized_user":"bob"}`:            envelope.CheckFailed,
		`{"name":"x","account":"AGENTS","authorized_user":"[REDACTED]"}`:     envelope.CheckFailed,
		`{"name":"x","account":"TB","authorized_user":"UABC"}`:               envelope.CheckOK,
	} {
		var one told[connections]
		if err := json.Unmarshal([]byte(`{"data":{"connections":[`+says+`]}}`), &one); err != nil {
			t.Fatal(err)
		}
		if c := opened([]told[connections]{one}); c.Status != want || (c.Fix == "") != (want == envelope.CheckOK) {
			t.Errorf("%s: %+v", says, c)
		}
	}
}

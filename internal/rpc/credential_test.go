package rpc

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// What a message says of the connection that it came over is believed only as far as the server says it.
func TestCredential(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.conf")
	err := os.WriteFile(file, []byte(`accounts {
		TB { users: [{user: dispatcher, password: x}], exports: [{service: "tb.call.>", accounts: [AGENTS]}] }
		AGENTS {
			users: [{user: "agent.t.a.f", password: x}]
			imports: [{service: {account: TB, subject: "tb.call.>"}, share: true}]
		}
	}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	conf, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	srv := natstest.Start(t, func(o *server.Options) { o.Accounts, o.Users = conf.Accounts, conf.Users })
	tb := srv.Connect(t, nats.UserInfo("dispatcher", "x"))
	agent := srv.Connect(t, nats.UserInfo("agent.t.a.f", "x"), nats.Name(`","user":"agent.t.other.f`))
	sub, err := tb.SubscribeSync("tb.call.>")
	if err != nil || tb.Flush() != nil {
		t.Fatal(err)
	}
	const info, forged = "Nats-Request-Info", `{"acc":"AGENTS","user":"agent.t.other.f"}`
	for name, c := range map[string]struct {
		from   *nats.Conn
		header nats.Header
		want   call.Credential
	}{
		"as it is":        {agent, nats.Header{"Tb-Token": {"x"}}, call.Credential{Token: "x", User: "agent.t.a.f"}},
		"forged":          {agent, nats.Header{info: {forged}}, call.Credential{User: "agent.t.a.f"}},
		"forged twice":    {agent, nats.Header{info: {forged, forged}}, call.Credential{User: "agent.t.a.f"}},
		"small letters":   {agent, nats.Header{"nats-request-info": {forged}}, call.Credential{User: "agent.t.a.f"}},
		"two tokens":      {agent, nats.Header{"Tb-Token": {"x", "y"}}, call.Credential{User: "agent.t.a.f"}},
		"without account": {tb, nats.Header{"Tb-Token": {"x"}}, call.Credential{Token: "x"}},
	} {
		err := c.from.PublishMsg(&nats.Msg{Subject: "tb.call.t.a.echo", Reply: "tb.ans.t.a.r", Header: c.header})
		if err != nil {
			t.Fatal(err)
		}
		msg, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(name, err)
		}
		if got := credential(msg.Header); got != c.want {
			t.Errorf("%s: %+v, want %+v, from %v", name, got, c.want, msg.Header)
		}
	}
}

func TestUserOf(t *testing.T) {
	for info, want := range map[string]string{
		`{"acc":"A","user":"agent.t.a.f","name":"n"}`:                 "agent.t.a.f",
		`{"acc":"A","user":"agent.t.a.f","name":"\",\"user\":\"b.c"}`: "agent.t.a.f",
		`{"acc":"A","name":"\",\"user\":\"b.c"}`:                      "",
		`{"user":"open`:                                               "",
		`{"user":"a\"b"}`:                                             "",
		``:                                                            "",
	} {
		if got := userOf(info); got != want {
			t.Errorf("%s: %q", info, got)
		}
	}
}

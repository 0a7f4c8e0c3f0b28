package subjects

import (
	"fmt"
	"strings"
	"testing"
)

const id = "4reidtfrk20p8kjm8sc16d5d1utmc8fr"

// TestNames holds every name literally: they are a contract with permissions, operators and
// other languages.
func TestNames(t *testing.T) {
	k := Key{Tool: "web.fetch", ID: id}
	for got, want := range map[string]string{
		Call("acme", "agent://a", "web.fetch"):   "tb.call.acme.agent_3a_2f_2fa.web_2efetch",
		CallWildcard:                             "tb.call.*.*.*",
		Partition(0).Recorded()[0]:               "$KV.calls.*.*.*.q.>",
		Partition(0).Recorded()[1]:               "$KV.calls.*.*.*.x.>",
		Service(OpResult, "acme", "a.b"):         "tb.svc.result.acme.a_2eb",
		ServiceWildcard(OpCancel):                "tb.svc.cancel.*.*",
		k.Ref():                                  "web_2efetch." + id,
		k.Filter():                               "$KV.calls.web_2efetch." + id + ".>",
		k.Request(1, "1.4.2", "high", "default"): "$KV.calls.web_2efetch." + id + ".1.q.1_2e4_2e2.high.default",
		k.Request(2, "1.4.2", Queue("", 0), "gpu pool"): "$KV.calls.web_2efetch." + id +
			".2.q.1_2e4_2e2.normal.gpu_20pool",
		k.Join(1):              "$KV.calls.web_2efetch." + id + ".1.j",
		k.Claim(1, "e-1"):      "$KV.calls.web_2efetch." + id + ".1.c.e-1",
		k.Outcome(1, "d-2"):    "$KV.calls.web_2efetch." + id + ".1.x.o.d-2",
		Answers("acme", "a.b"): "tb.ans.acme.a_2eb.",
		Partition(0).WorkFilter("default", "low"):                 "$KV.calls.*.*.*.q.*.low.default",
		Partition(0).WorkFilter("default", Queue("low", 3)):       "$KV.calls.*.*.*.q.*.low-behind.default",
		Worker("default", Queue("", 0)):                           "exec_default_normal",
		Worker("default", Queue("", 3)):                           "exec_default_normal-behind",
		Worker("gpu pool", "high"):                                "exec_gpu_20pool_high",
		PoolSubject("default", "host-1.x"):                        "$KV.pools.default.host-1_2ex",
		PoolSubject("default", "h"):                               "$KV.pools.default.h",
		ChunkSource{"acme", "a", id, 2, 42, "gpu pool"}.Subject(): "tb.chunk.acme.a." + id + ".2.42.gpu_20pool",
		ChunksOn("gpu pool"):                                      "tb.chunk.*.*.*.*.*.gpu_20pool",
		Owner{"acme", "a.b"}.On("gpu pool").Payload("00ff", 3):    "tb.payload.acme.a_2eb.00ff.3.gpu_20pool",
		PayloadsOn("gpu pool"):                                    "tb.payload.*.*.*.*.gpu_20pool",
		ChunkLive("acme", "a", id):                                "tb.chunk.acme.a." + id + ".>",
		Partition(1).Audit("a.b"):                                 "tb.audit.calls_1.a_2eb",
		JournalSubject("e-1", "acme"):                             "tb.audit.gate.e-1.acme",
		JournalSubjectsOf("e-1"):                                  "tb.audit.gate.e-1.*",
		Denied("d-1", "acme"):                                     "tb.denied.d-1.acme",
		DeniedOf("d-1"):                                           "tb.denied.d-1.*",
		Dead("acme", "web.fetch"):                                 "tb.dead.acme.web_2efetch",
		Kill(id):                                                  "tb.ctl.kill." + id,
		Locate(id):                                                "tb.ctl.seek." + id,
		ExecutorAnswers("gpu pool", "e-1"):                        "tb.exe.ans.gpu_20pool.e-1.",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

var hostile = []string{"", "a", "a.b", "*", ">", "a b", "_", "_e", "=e", "é", "\x00", "a\nb", "$KV", "x_h",
	strings.Repeat("k", 90)}

// TestRoundTrips builds every subject from every pair of hostile names and parses it again.
func TestRoundTrips(t *testing.T) {
	for _, a := range hostile {
		for _, b := range hostile {
			tenant, actor, tool, err := ParseCall(Call(a, b, a))
			same(t, err, []any{tenant, actor, tool}, a, b, a)
			c, err := ParseChunk(ChunkSource{a, b, a, 3, 1 << 60, b}.Subject())
			same(t, err, []any{c}, ChunkSource{a, b, a, 3, 1 << 60, b})
			killed, err := ParseKill(Kill(a))
			same(t, err, []any{killed}, a)
			sought, err := ParseLocate(Locate(a))
			same(t, err, []any{sought}, a)
			pool, executor, err := ParsePool(PoolSubject(a, b))
			same(t, err, []any{pool, executor}, a, b)
			k := Key{Tool: a, ID: b}
			ref, err := ParseRef(k.Ref())
			same(t, err, []any{ref}, k)
		}
	}
}

func same(t *testing.T, err error, got []any, want ...any) {
	t.Helper()
	if err != nil || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestParseEvent(t *testing.T) {
	k := Key{Tool: "mcp::x.y", ID: id}
	for subject, want := range map[string]Event{
		k.Request(1, "1.0.0", "high", "gpu"): {Key: k, Attempt: 1, Kind: KindRequest, Version: "1.0.0", Queue: "high",
			Pool: "gpu"},
		k.Request(7, "", Queue("", 3), ""): {Key: k, Attempt: 7, Kind: KindRequest, Queue: "normal-behind"},
		k.Join(2):                          {Key: k, Attempt: 2, Kind: KindJoin},
		k.Claim(3, "e-1"):                  {Key: k, Attempt: 3, Kind: KindClaim, Instance: "e-1"},
		k.Outcome(4, "d 2"):                {Key: k, Attempt: 4, Kind: KindOutcome, Instance: "d 2"},
	} {
		if got, err := ParseEvent(subject); err != nil || got != want {
			t.Errorf("%s: %+v, %v", subject, got, err)
		}
	}
}

// TestLongNames: a name that a token cannot hold is parsed as empty, and a key still finds its log.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("spiffe://", 20)
	tenant, actor, tool, err := ParseCall(Call("acme", long, "x"))
	same(t, err, []any{tenant, actor, tool}, "acme", "", "x")
	k := Key{Tool: long, ID: id}
	e, err := ParseEvent(k.Outcome(1, "e"))
	if err != nil || e.Key.Tool != "" || e.Key.Filter() != k.Filter() || e.Key.Ref() != k.Ref() {
		t.Errorf("%+v, %v", e, err)
	}
	back, err := ParseRef(k.Ref())
	if err != nil || back.Outcome(2, "e") != k.Outcome(2, "e") {
		t.Errorf("%+v, %v", back, err)
	}
}

// What of a call's subject can be read is, for the record of its refusal.
func TestParseCallInPart(t *testing.T) {
	tenant, actor, tool, err := ParseCall("tb.call.acme.agent://a.odd_zz")
	if tenant != "acme" || actor != "" || tool != "" || err == nil || !strings.Contains(err.Error(), `"agent://a"`) {
		t.Errorf("%q %q %q %v", tenant, actor, tool, err)
	}
}

func TestParsersRefuse(t *testing.T) {
	for _, s := range []string{
		"", "x", "tb.call.a.b", "tb.call.a.b.c.d", "tb.call.a.b.c_", "tb.call.a..c", "tb.call.*.b.c", "call.a.b.c",
		"tb.chunk.a.b.c.1", "tb.chunk.a.b.c.01.2", "tb.chunk.a.b.c.1.02", "tb.chunk.a.b.c.0.1", "tb.chunk.a.b.c.1.-2",
		"tb.chunk.a.b.c.x.1", "tb.chunk.a.b_.c.1.1",
		"tb.ctl.kill", "tb.ctl.kill.a.b", "tb.ctl.seek", "tb.ctl.seek.a.b",
		"a.b.c", "a_.b", "a.b_", "a", "$KV.pools.a", "$KV.pools.a_.b", "$KV.pools.a.b.c",
		"$KV.calls.t.i", "$KV.calls.t.i.1", "$KV.calls.t.i.0.j", "$KV.calls.t.i.01.j", "$KV.calls.t.i.+1.j",
		"$KV.calls.t.i.1.z", "$KV.calls.t.i.1.o",
		"$KV.calls.t.i.1.j.x", "$KV.calls.t.i.1.x", "$KV.calls.t.i.1.c", "$KV.calls.t.i.1.c.e.e", "$KV.calls.t.i.1.x.o",
		"$KV.calls.t.i.1.x.o.e_", "$KV.calls.t.i.1.x.o.e.e", "$KV.calls.t.i.1.x.p", "$KV.calls.t.i.1.q.v.p",
		"$KV.calls.t.i.1.q.v_.p.o",
		"$KV.calls.t.i.1.q.v.=.o", "$KV.calls.t.i.1.q.v.p.o_", "$KV.calls.t_.i.1.j", "$KV.calls.t.i_.1.j", "KV.calls.t.i.1.j",
	} {
		for name, parse := range map[string]func(string) error{
			"ParseCall":  func(s string) error { _, _, _, err := ParseCall(s); return err },
			"ParseChunk": func(s string) error { _, err := ParseChunk(s); return err },
			"ParseKill":  func(s string) error { _, err := ParseKill(s); return err },
			"ParseSeek":  func(s string) error { _, err := ParseLocate(s); return err },
			"ParseRef":   func(s string) error { _, err := ParseRef(s); return err },
			"ParsePool":  func(s string) error { _, _, err := ParsePool(s); return err },
			"ParseEvent": func(s string) error { _, err := ParseEvent(s); return err },
		} {
			if parse(s) == nil {
				t.Errorf("%s took %q", name, s)
			}
		}
	}
}

// FuzzParseEvent: whatever parses is what the key builds.
func FuzzParseEvent(f *testing.F) {
	k := Key{Tool: "web.fetch", ID: id}
	for _, s := range []string{k.Request(1, "1.0.0", "high", "gpu"), k.Join(2), k.Claim(3, "e-1"), k.Outcome(4, "d-1"),
		Key{Tool: strings.Repeat(".", 99), ID: id}.Join(1)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := ParseEvent(s)
		if err != nil {
			return
		}
		var built string
		switch e.Kind {
		case KindRequest:
			built = e.Key.Request(e.Attempt, e.Version, e.Queue, e.Pool)
		case KindJoin:
			built = e.Key.Join(e.Attempt)
		case KindClaim:
			built = e.Key.Claim(e.Attempt, e.Instance)
		case KindOutcome:
			built = e.Key.Outcome(e.Attempt, e.Instance)
		}
		if built != s && !strings.Contains(s, digestMark) && !strings.Contains(s, "=e") {
			t.Errorf("%q was parsed as %+v, which builds %q", s, e, built)
		}
		if !strings.HasPrefix(s, strings.TrimSuffix(e.Key.Filter(), ">")) {
			t.Errorf("%q is outside of %s", s, e.Key.Filter())
		}
	})
}

// Nobody is answered but below the prefix of its own actor, whatever it names.
func TestInbox(t *testing.T) {
	asked := Call("t", "agent://a", "x")
	for reply, want := range map[string]bool{
		Answers("t", "agent://a") + "word.1": true, Answers("t", "agent://a"): false, Answers("t", "b") + "word": false,
		Answers("u", "agent://a") + "word": false, Answers("t", "agent://a")[:10]: false, "_INBOX.x.1": false,
		"replies.agent.7": false, "": false,
		"$JS.ACK.x": false, "$KV.calls.x": false, asked: false, Partition(0).Audit("t"): false,
	} {
		if Inbox(asked, reply) != want || Inbox(Service(OpWhy, "t", "agent://a"), reply) != want {
			t.Errorf("%q: %t", reply, !want)
		}
	}
	if reply := Answers("t", "a") + "word"; Inbox("tb.chunk.t.a.id.1.1", reply) || Inbox("x", reply) {
		t.Error("what is no request is answered")
	}
}

func BenchmarkSubjects(b *testing.B) {
	k := Key{Tool: "bench.echo0", ID: "tvvkpo628dl23u4k9tut9d554b2032h7"}
	for name, of := range map[string]func() string{
		"Ref": k.Ref, "Filter": k.Filter,
		"Request": func() string { return k.Request(1, "1.0.0", "normal", "default") },
		"Outcome": func() string { return k.Outcome(1, "e-448a8c3") },
		"Call":    func() string { return Call("default", "agent://local", k.Tool) },
		"Audit":   func() string { return Partition(0).Audit("default") },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				of()
			}
		})
	}
}

// Between accounts a request is answered where its header says, below the prefix of its own actor.
func TestAnswerTo(t *testing.T) {
	asked, own := Call("t", "agent://a", "echo"), Answers("t", "agent://a")
	for _, try := range []struct{ reply, word, want string }{
		{own + "x.y", "", own + "x.y"},
		{own + "x.y", "z", own + "x.y"},
		{"_R_.abc.def", "x.y", own + "x.y"},
		{"_R_.abc.def", "", ""},
		{"_R_.abc.def", "x..y", ""},
		{"_R_.abc.def", "x.>", ""},
		{"_R_.abc.def", "x y", ""},
		{"_R_.abc.def", strings.Repeat("x", maxAnswerWord+1), ""},
		{Answers("t", "agent://b") + "x", "x", ""},
		{"$JS.API.STREAM.DELETE.AUDIT", "x", ""},
		{"", "x", ""},
	} {
		if to, ok := AnswerTo(asked, try.reply, try.word); to != try.want || ok != (try.want != "") {
			t.Errorf("%q, %q: %q, %v", try.reply, try.word, to, ok)
		}
	}
	if to, ok := AnswerTo("tb.chunk.t.a.id.1.1", "_R_.abc", "x"); ok {
		t.Errorf("answered at %q", to)
	}
}

// Every queue of a pool has a name that says of which requests it is, and no two share a consumer, whatever pools are
// called.
func TestQueues(t *testing.T) {
	workers := map[string]bool{}
	for _, pool := range []string{"default", "default_high", "default-behind"} {
		for _, queue := range Queues() {
			if prio, step := ParseQueue(queue); Queue(prio, step) != queue {
				t.Errorf("%s is of %s, step %d", queue, prio, step)
			}
			workers[Worker(pool, queue)] = true
		}
	}
	if len(workers) != 36 {
		t.Errorf("%d consumers: %v", len(workers), workers)
	}
	for _, queue := range []string{"-behind", "urgent", ""} {
		if prio, step := ParseQueue(queue); prio != queue || step != 0 {
			t.Errorf("%q is of %q, step %d", queue, prio, step)
		}
	}
}

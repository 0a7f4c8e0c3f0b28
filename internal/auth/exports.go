package auth

import (
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The account of the dispatchers (TB) and the accounts that the auth callout assigns to connections with tokens. All
// streams are in TB. Full allows no connections: for a connection that is assigned to it, the server returns the error
// of a full account, nats.ErrMaxAccountConnectionsExceeded.
const (
	TB       = "TB"
	Agents   = "AGENTS"
	Exec     = "EXEC"
	Auditors = "AUDITORS"
	Full     = "FULL"
)

// ServiceExport is a service export of TB: a subject to which another account may send requests.
type ServiceExport struct {
	Subject   string
	As        string // the subject in the other account, with as many wildcards; "" is Subject
	To        string // the account that imports it
	Many      bool   // a request has several answers
	Threshold string // how long the server keeps the reply mapping of a request; it drops later answers
	Share     bool   // the server adds a header to each request that names the user who sent it
}

// StreamExport is a stream export of the account From: a subject to which the account To may subscribe.
type StreamExport struct{ Subject, From, To string }

// Thresholds of service exports. Dispatchers answer on other subjects than the reply subjects that the server maps, so
// the mapping of a request to dispatchers is never used.
const (
	untilAnswered = "10s"
	untilPulled   = "2m"
)

// ServiceExports returns the service exports of TB to the accounts for tokens. An account imports only what its users
// need. The permissions of each user restrict it further.
func ServiceExports() (all []ServiceExport) {
	for _, to := range []string{Agents, Auditors} {
		all = append(all, ServiceExport{Subject: "tb.svc.*.*.*", To: to, Threshold: untilAnswered, Share: true})
	}
	parts := once(Agents, subjects.PartsReceived)
	parts.As = subjects.PartsSent
	all = append(all, parts, once(Exec, subjects.PayloadsAll),
		once(Exec, subjects.ChunksAll),
		once(Exec, "$KV.pools.*.*"), once(Exec, "$JS.ACK.>"),
		ServiceExport{Subject: "tb.exe.*.*.*", To: Exec, Threshold: untilAnswered, Share: true},
		ServiceExport{Subject: subjects.ExecutorReplyWildcard, To: Exec, Threshold: untilAnswered, Share: true},
	)
	for _, i := range operation.Table() {
		if i.Permits(Executor) {
			all = append(all, ServiceExport{Subject: i.Wildcard(), To: Exec, Threshold: untilAnswered, Share: true})
		}
	}
	for p := range subjects.Partition(subjects.MaxPartitions) {
		pulls := many(Exec, "$JS.API.CONSUMER.MSG.NEXT."+p.Stream()+".*")
		pulls.Threshold = untilPulled
		all = append(all, pulls)
		for _, s := range p.Written("", "") {
			all = append(all, once(Exec, s))
		}
	}
	for _, s := range []string{subjects.AuditStream, subjects.SurplusStream, subjects.DeniedStream} {
		all = append(all, many(Auditors, "$JS.API.DIRECT.GET."+s))
	}
	return all
}

func once(to, subject string) ServiceExport {
	return ServiceExport{Subject: subject, To: to, Threshold: untilAnswered}
}

func many(to, subject string) ServiceExport {
	return ServiceExport{Subject: subject, To: to, Threshold: untilAnswered, Many: true}
}

// streams returns all stream exports: calls go to dispatchers, answers and chunks to agents, and messages of
// dispatchers to executors. Answers and chunks of executors are exported from EXEC to AGENTS directly, because an
// account does not export messages that it imported. Calls are not a service: the server would add a header with the
// user and keep a reply mapping for each call, which costs a tenth of a call. Only dispatchers in TB subscribe to
// calls, and they answer only below [subjects.Answers], so a forged reply subject has no effect. Requests of executors
// are a service. Dispatchers answer them below [subjects.ExecutorAnswers].
func streams() []StreamExport {
	return []StreamExport{
		{subjects.CallWildcard, Agents, TB},
		{"tb.ans.>", TB, Agents}, {"tb.ans.>", TB, Auditors}, {"tb.ans.>", TB, Exec}, {"tb.ans.>", Exec, Agents},
		{subjects.ChunksAll, TB, Agents}, {subjects.ChunksAll, Exec, Agents},
		{subjects.KillWildcard, TB, Exec}, {subjects.LocateWildcard, TB, Exec},
		{subjects.ExecutorAnswersAll, TB, Exec},
	}
}

// StreamsFrom returns the stream exports of an account.
func StreamsFrom(account string) []StreamExport {
	return slices.DeleteFunc(streams(), func(s StreamExport) bool { return s.From != account })
}

// StreamsTo returns the stream exports that an account imports.
func StreamsTo(account string) []StreamExport {
	return slices.DeleteFunc(streams(), func(s StreamExport) bool { return s.To != account })
}

// maxMessage is the largest message of a caller in bytes: the largest envelope with its headers. A part of a payload is
// smaller. The server closes a connection that sends a larger message.
const maxMessage = 576 << 10

const _ = uint(maxMessage - envelope.MaxEnvelope - envelope.MaxHeaders) // does not compile if maxMessage is too small

// maxOfExecutor is the largest message of an executor in bytes. It is also the limit of the server for all connections.
const maxOfExecutor = 1 << 20

// ClientAccount is an account for connections with tokens. It has no streams.
type ClientAccount struct {
	Name, Is string
	Payload  int // the largest message in bytes, headers included
	// Connections is the limit of open connections, on all servers of a cluster together.
	Connections int
	Services    []ServiceExport
	Exports     []StreamExport
	Streams     []StreamExport
}

func ClientAccounts() []ClientAccount {
	all := []ClientAccount{
		{Name: Agents, Payload: maxMessage, Connections: AgentConnections,
			Is: "Callers: agents, doors that speak for many, operators."},
		{Name: Exec, Payload: maxOfExecutor, Connections: ExecutorConnections, Is: "Executors."},
		{Name: Auditors, Payload: maxMessage, Connections: AuditorConnections,
			Is: "Auditors, who read what happened, and nothing else."},
	}
	for i := range all {
		g := &all[i]
		g.Services = slices.DeleteFunc(ServiceExports(), func(s ServiceExport) bool { return s.To != g.Name })
		g.Exports, g.Streams = StreamsFrom(g.Name), StreamsTo(g.Name)
	}
	return all
}

// Imports returns the imports of each account, one line each: "service SUBJECT from ACCOUNT" or "stream SUBJECT from
// ACCOUNT". Imports that the server adds by itself are not included.
func Imports() map[string][]string {
	all := map[string][]string{Full: nil}
	for _, s := range StreamsTo(TB) {
		all[TB] = append(all[TB], ImportLine("stream", s.Subject, s.From))
	}
	for _, g := range ClientAccounts() {
		for _, s := range g.Services {
			all[g.Name] = append(all[g.Name], ImportLine("service", s.Subject, TB))
		}
		for _, s := range g.Streams {
			all[g.Name] = append(all[g.Name], ImportLine("stream", s.Subject, s.From))
		}
	}
	return all
}

// ImportLine returns a line of [Imports].
func ImportLine(kind, subject, from string) string { return kind + " " + subject + " from " + from }

package auth

import (
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The accounts that tokens lead to. Everything durable is in TB. Full takes no connection: the server refuses one that
// leads there with its error for a full account, nats.ErrMaxAccountConnectionsExceeded.
const (
	TB       = "TB"
	Agents   = "AGENTS"
	Exec     = "EXEC"
	Auditors = "AUDITORS"
	Full     = "FULL"
)

// ServiceExport is a subject of TB to which others may send requests.
type ServiceExport struct {
	Subject   string
	As        string // the subject to which the account sends it, with as many wildcards; "" is Subject
	To        string // the account
	Many      bool   // a request has several answers
	Threshold string // after which an answer is not brought to whoever asked any more, and the way to them forgotten
	Share     bool   // the server says of each request which user has sent it
}

// StreamExport is a subject of an account whose messages others may hear.
type StreamExport struct{ Subject, From, To string }

// How long the server remembers where an answer goes. Dispatchers answer on subjects of their own, so that what is
// remembered of calls is never used.
const (
	untilAnswered = "10s"
	untilPulled   = "2m"
)

// ServiceExports is what TB does for other accounts. No list is wider than what its account needs, and the permissions
// of each user are narrower.
func ServiceExports() (all []ServiceExport) {
	for _, to := range []string{Agents, Auditors} {
		all = append(all, ServiceExport{Subject: "tb.svc.*.*.*", To: to, Threshold: untilAnswered, Share: true})
	}
	parts := once(Agents, subjects.PartsReceived)
	parts.As = subjects.PartsSent
	for _, to := range []string{Agents, Exec} { // for builds of the release before, see Facts.OlderBuilds
		all = append(all, many(to, directGet(subjects.PayloadsStream, subjects.PayloadsAll)))
	}
	all = append(all, parts, once(Exec, subjects.PayloadsAll),
		once(Exec, subjects.ChunksAll), many(Exec, directGet(subjects.ChunksStream, subjects.ChunksAll)),
		once(Exec, "$KV.pools.*.*"), once(Exec, "$JS.ACK.>"),
		ServiceExport{Subject: "tb.exe.*.*.*", To: Exec, Threshold: untilAnswered, Share: true},
		ServiceExport{Subject: subjects.ExecutorReplyWildcard, To: Exec, Threshold: untilAnswered, Share: true},
		ServiceExport{Subject: subjects.ServiceWildcard(subjects.OpTokenRenew), To: Exec, Threshold: untilAnswered,
			Share: true},
	)
	for p := range subjects.Partition(subjects.MaxPartitions) {
		pulls := many(Exec, "$JS.API.CONSUMER.MSG.NEXT."+p.Stream()+".*")
		pulls.Threshold = untilPulled
		all = append(all, pulls)
		for _, s := range p.Written("", "") {
			all = append(all, once(Exec, s))
		}
	}
	for _, s := range []string{subjects.AuditStream, subjects.DeniedStream} {
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

func directGet(stream, subject string) string { return "$JS.API.DIRECT.GET." + stream + "." + subject }

// streams is what is heard across accounts: requests by dispatchers, answers and chunks by agents, and what dispatchers
// tell executors. What executors send reaches agents from their own account, since what an account was sent it does not
// pass on. A request is no service: the server would say of each which user has sent it, and remember where its answer
// goes, at a tenth of what a call costs. Nothing in TB but dispatchers hears requests, and those answer below
// [subjects.Answers] alone, so that a hostile reply subject leads nowhere. The questions of executors are a service;
// dispatchers answer them below [subjects.ExecutorAnswers].
func streams() []StreamExport {
	return []StreamExport{
		{subjects.CallWildcard, Agents, TB},
		{"tb.ans.>", TB, Agents}, {"tb.ans.>", TB, Auditors}, {"tb.ans.>", TB, Exec}, {"tb.ans.>", Exec, Agents},
		{subjects.ChunksAll, TB, Agents}, {subjects.ChunksAll, Exec, Agents},
		{subjects.KillWildcard, TB, Exec}, {subjects.LocateWildcard, TB, Exec},
		{subjects.ExecutorAnswersAll, TB, Exec},
	}
}

// StreamsFrom is what others hear of an account.
func StreamsFrom(account string) []StreamExport {
	return slices.DeleteFunc(streams(), func(s StreamExport) bool { return s.From != account })
}

// StreamsTo is what an account hears of others.
func StreamsTo(account string) []StreamExport {
	return slices.DeleteFunc(streams(), func(s StreamExport) bool { return s.To != account })
}

// maxMessage is what a caller may send at once, in bytes: the largest envelope with its headers. A part of a payload is
// smaller. The server ends a connection that sends more.
const maxMessage = 576 << 10

const _ = uint(maxMessage - envelope.MaxEnvelope - envelope.MaxHeaders) // neither is it less

// maxOfExecutor is what the server takes of anybody.
const maxOfExecutor = 1 << 20

// ClientAccount is an account without anything durable.
type ClientAccount struct {
	Name, Is string
	Payload  int // bytes of a message that it may send, headers included
	// Connections at once, on all servers of a cluster together.
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

// Imports returns what each account has of the others, one line each: "service SUBJECT from ACCOUNT", or "stream" for
// service. What the server itself adds is not among it.
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

// ImportLine is a line of [Imports].
func ImportLine(kind, subject, from string) string { return kind + " " + subject + " from " + from }

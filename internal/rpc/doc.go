// Package rpc implements request-reply over core NATS: dispatchers receive calls and requests with it, and callers
// receive answers.
//
// [Listen] receives calls, with limits and fairly among tenants and actors. [Serve] answers the requests of the service
// "toolbus"; an [Endpoint] is one operation of it. An [Inbox] is the caller's side of both. [Replies] sends outcomes to
// callers. [Control] carries messages from dispatchers to executors: kill a run, and locate a call. A [FilterConn]
// takes messages out of the byte stream of a server before the client library reads them: the library would decode the
// headers of each message, and has one queue for all senders. Start reading at listener.go, service.go and inbox.go.
package rpc

// Package rpc is request-reply over core NATS: where dispatchers receive calls and requests, and callers their answers.
//
// [Listen] receives calls, fairly between tenants and actors and within bounds, and [Serve] answers the requests of the
// service "toolbus"; an [Endpoint] is one operation of it. [Inbox] is the caller's side of both, and [Replies] sends
// outcomes to callers. [Control] carries cancels and questions from dispatchers to executors. [FilterConn] takes
// messages out of what a server sends before the client of NATS reads them, since that makes objects of the headers of
// each and has one queue for all senders. Start reading at listener.go, service.go and inbox.go.
package rpc

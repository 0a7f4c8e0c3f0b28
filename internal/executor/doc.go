// Package executor runs calls: it takes a work message, claims the call where its class needs
// it, runs the tool under its limits, and sees to it that exactly one outcome stands before the
// message is acknowledged.
//
// [Executor.Handle] reads like the protocol. The package knows no NATS: the log, the streams
// and the clock come in as small interfaces, so that it runs under testing/synctest.
package executor

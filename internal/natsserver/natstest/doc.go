// Package natstest runs a real NATS server with JetStream inside a test.
//
//	srv := natstest.Start(t)          // file storage in t.TempDir, a free port
//	js := srv.JetStream(t)            // a connection of its own that survives restarts
//	srv.Restart()                     // the same directory and port: what was stored is still there
//
// Everything is undone by the test's own clean-up. What the server logged is shown only when the
// test fails. A server that does not start fails the test; nothing is ever skipped.
package natstest

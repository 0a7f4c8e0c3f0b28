// Package executorapi is what executors ask dispatchers for. An executor needs of the server no more than to pull its
// work, to write its own events, heartbeats, chunks and payloads, and to read payloads and chunks by their names; all
// else it is told, or done for it, by a dispatcher: [Server.Serve] answers, [Client] asks. Start reading at client.go;
// forms.go has what is asked.
//
// Questions are answered by one of the dispatchers. One that is not answered in time is asked again, of another one,
// so that every question may come twice: those that write something write it once.
package executorapi

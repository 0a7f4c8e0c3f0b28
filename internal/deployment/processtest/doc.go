// Package processtest runs a deployment for tests as in production: servers, dispatchers and executors are processes,
// configured by the files that `toolbus keys init` writes.
package processtest

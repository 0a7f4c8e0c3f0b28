// Package processtest runs a deployment for tests as it is run in production: servers, dispatchers and executors are
// processes, made from the files that `toolbus keys init` writes.
package processtest

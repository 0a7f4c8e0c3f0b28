// Package accounts is what the server knows of a deployment: its accounts, what each may reach of another, which
// secrets open them, and what every role may do. One template makes the configuration of an embedded server, of one by
// itself, and of each of three.
//
// Accounts are walls that permissions are not: a server sends its answers to whatever reply subject a client names,
// with its own rights, but only within the client's account. So agents, executors and auditors each have an account
// without JetStream, and reach of the bus what is exported to them.
package accounts

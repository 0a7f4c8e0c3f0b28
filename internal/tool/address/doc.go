// Package address decides to which IP addresses tools may connect: public ones, and those in networks that the operator
// allows.
//
// Callers and redirects name hosts, and a name may lead into the executor's own network. So [Dialer] checks each
// address that the resolver returned, before it connects. Other spellings of an address, DNS answers that change and
// redirects do not get past it. It takes the public addresses of the executor's own host for public. It does not
// recognise private addresses behind a NAT64 whose prefix is not 64:ff9b::/96.
//
// Start reading at networks.go; dialer.go applies it to connections.
package address

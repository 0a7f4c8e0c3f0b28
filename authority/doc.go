// Package authority is the porter: it tells the server who a new connection is and what that may do, and closes
// connections whose token was revoked.
package authority

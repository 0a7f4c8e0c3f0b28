// Package deploy tests the profiles of deploy/nats as they are run: servers, dispatcher and executor as processes of
// their own, made from what `toolbus keys init` writes, and killed.
package deploy

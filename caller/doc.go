// Package caller calls tools on a bus. It is for programs that neither run tools nor admit calls: it links a third of
// what package toolbus links, whose Client, Call and Error are the same types.
//
//	client, err := caller.Connect(ctx, "", caller.Options{CredentialsFile: "me.token"})
//	resp, err := client.Call(ctx, caller.Call{Tool: "greet", Input: []byte(`{"name":"Ada"}`)})
//
// An operator makes the file, as does the user of a bus of toolbus dev: toolbus credentials issue --actor agent://me
// --out me.token.
//
// A nil error means success, and every other outcome is an [Error]. docs/calling.md shows a whole agent. Start reading
// at connect.go and client.go.
package caller

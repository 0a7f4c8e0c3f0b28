// Transcript-clean is an MCP server over standard input and output with the tool transcript.clean, which is package
// tools/internal/transcript.
//
// Where its environment has TRANSCRIPT_CHAT_URL, a language model mends the punctuation and sentences of what is clean:
// it is asked at /chat/completions below that URL, as OpenAI's service and many others have it, by the name
// TRANSCRIPT_CHAT_MODEL and with the key TRANSCRIPT_CHAT_KEY. What it does not answer, or answers with something that
// cannot be the same text, is a model_error. Without it the same text always gives the same result.
package main

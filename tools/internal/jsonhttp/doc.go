// Package jsonhttp asks HTTP services that take and give JSON, as those of language models and search engines do. What
// they answer is bounded, and they are not followed to other addresses; nothing that fails says their address or key.
package jsonhttp

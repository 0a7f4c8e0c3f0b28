// Web-fetch is the tool web.fetch: it fetches one web page and returns its readable text. What it promises and what it
// does not is said in package tools/internal/webpage, which does all of it. Each flag --allow-network adds a
// network whose addresses it may reach although they are not public.
package main

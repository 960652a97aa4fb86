// Package guestfiles removes what guests have left on the disk: folders as deep, as many, and as locked as they liked.
package guestfiles

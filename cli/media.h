/* media.h - media types by the endings of names. Pure; any thread. */
#ifndef CLI_MEDIA_H
#define CLI_MEDIA_H

/* NULL where the ending says nothing: the endpoint then stores its default. */
const char *cli_media_type(const char *name);

#endif

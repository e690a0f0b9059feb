"""An edit on a device: the template's state streams in, the request stays where it is."""

# A mail server: small files that come, are made durable, grow, are read and go. F2FSJ paper, section 5.3, and its artifact's
# parameters; the append has a fixed size for every file system.
set $nfiles=250000
set $dirwidth=100
set $filesize=16k
set $appendsize=16k
set $iosize=1m
set $nthreads=1
set $count=300000

define fileset name=mail,path=/,entries=$nfiles,dirwidth=$dirwidth,size=$filesize,prealloc=80

define process name=server,instances=1
{
  thread name=mailer,instances=$nthreads
  {
    flowop deletefile name=drop,filesetname=mail
    flowop createfile name=deliver,filesetname=mail,fd=1
    flowop appendfile name=write-new,iosize=$appendsize,fd=1
    flowop fsync name=sync-new,fd=1
    flowop closefile name=close-new,fd=1
    flowop openfile name=open-mark,filesetname=mail,fd=1
    flowop readwholefile name=read-mark,iosize=$iosize,fd=1
    flowop appendfile name=write-mark,iosize=$appendsize,fd=1
    flowop fsync name=sync-mark,fd=1
    flowop closefile name=close-mark,fd=1
    flowop openfile name=open-read,filesetname=mail,fd=1
    flowop readwholefile name=read,iosize=$iosize,fd=1
    flowop closefile name=close-read,fd=1
    flowop finishoncount name=enough,value=$count
  }
}

run 86400
